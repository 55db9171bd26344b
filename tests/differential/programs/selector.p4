/* Action profiles and selectors: members, groups, choice by hash, hit and miss, and which action ran. */
#include <core.p4>
#include <v1model.p4>

header flow_t { bit<8> group; bit<8> key; bit<16> sport; bit<32> src; bit<8> ran; bit<8> value; bit<8> hit; }
struct headers_t { flow_t f; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.f); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action one(bit<8> value) { h.f.ran = 1; h.f.value = value; }
    action two(bit<8> value, bit<9> port) { h.f.ran = 2; h.f.value = value; s.egress_spec = port; }
    action none() { h.f.ran = 3; }
    action_profile(32) profile;
    action_selector(HashAlgorithm.crc16, 64, 14) groups;
    table plain {
        key = { h.f.key: exact; }
        actions = { one; two; none; NoAction; }
        implementation = profile;
    }
    table chosen {
        key = { h.f.group: ternary; h.f.sport: selector; h.f.src: selector; }
        actions = { one; two; none; NoAction; }
        implementation = groups;
    }
    apply {
        s.egress_spec = 2;
        if (plain.apply().hit) { h.f.hit = 1; } else { h.f.hit = 0; }
        switch (chosen.apply().action_run) {
            one: { h.f.hit = h.f.hit + 16; }
            two: { h.f.hit = h.f.hit + 32; }
            default: { h.f.hit = h.f.hit + 64; }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.f); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
