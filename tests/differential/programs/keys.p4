/* Tables with each kind of key and with all of them, wide keys, masks, validity, const entries and priorities. */
#include <core.p4>
#include <v1model.p4>

header fields_t { bit<8> kind; bit<16> x; bit<16> y; bit<64> z; bit<128> w; bit<9> port; bit<7> pad; bit<32> told; }
header extra_t { bit<8> e; }
struct headers_t { fields_t f; extra_t e; }
struct meta_t { bit<32> hits; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.f); transition select(h.f.kind) { 0 .. 3: more; 7: more; default: accept; } }
    state more { p.extract(h.e); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action add(bit<32> n) { m.hits = m.hits + n; }
    action flip(bit<32> n) { m.hits = m.hits ^ n; }
    table by_exact { key = { h.f.x: exact; h.f.w: exact; } actions = { add; flip; NoAction; } size = 64; }
    table by_lpm { key = { h.f.z: lpm; } actions = { add; flip; } default_action = add(1); }
    table by_lpm_wide { key = { h.f.kind: exact; h.f.w: lpm; } actions = { add; flip; } default_action = add(2); }
    table by_ternary { key = { h.f.x: ternary; h.f.w: ternary; h.e.isValid(): exact; } actions = { add; flip; NoAction; } }
    table by_range { key = { h.f.x: range; h.f.z: range; } actions = { add; flip; NoAction; } }
    table by_optional { key = { h.f.y: optional; s.ingress_port: optional; } actions = { add; flip; NoAction; } }
    table by_all {
        key = { h.f.kind: exact; h.f.x: ternary; h.f.y: range; h.f.z: lpm; h.f.port: optional; }
        actions = { add; flip; NoAction; }
    }
    table by_slice { key = { h.f.z[19:4]: exact; h.f.x ++ h.f.y: ternary @name("both"); h.f.x & 0xff0: exact @name("middle"); }
        actions = { add; flip; NoAction; } }
    table fixed {
        key = { h.f.x: ternary; h.f.y: range; }
        actions = { add; flip; }
        const entries = {
            (0x00ff &&& 0x00ff, 0 .. 100): add(1000);
            (0x0f00 &&& 0x0f00, 50 .. 500): flip(0x5555);
            (_, 0xff00 .. 0xffff): add(7);
            (0, _): flip(1);
        }
        const default_action = add(3);
    }
    apply {
        s.egress_spec = 1;
        m.hits = 0;
        by_exact.apply(); by_lpm.apply(); by_lpm_wide.apply(); by_ternary.apply(); by_range.apply();
        by_optional.apply(); by_all.apply(); by_slice.apply(); fixed.apply();
        h.f.told = m.hits;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.f); p.emit(h.e); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
