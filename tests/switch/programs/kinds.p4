// A value set whose fields match in every way, and tables that begin with entries.
#include <core.p4>
#include <v1model.p4>

header fields_t {
    bit<16> low;
    bit<72> wide;
    bit<8> tail;
    bit<8> known;
    bit<8> answer;
}
struct member_t {
    @match(range) bit<16> low;
    @match(range) bit<72> wide;
    @match(ternary) bit<8> tail;
}
struct headers_t { fields_t fields; }
struct metadata_t { bit<8> known; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<member_t>(4) members;
    state start {
        packet.extract(hdr.fields);
        transition select(hdr.fields.low, hdr.fields.wide, hdr.fields.tail) {
            members: known;
            default: accept;
        }
    }
    state known { meta.known = 1; transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action answer(bit<8> v) { hdr.fields.answer = v; }
    table begun {
        key = { hdr.fields.tail: ternary; }
        actions = { answer; }
        size = 8;
        entries = { 1 &&& 0xf: answer(11); 2 &&& 0xf: answer(12); _: answer(13); }
    }
    table fixed {
        key = { hdr.fields.low: exact; }
        actions = { answer; }
        const entries = { 7: answer(77); }
    }
    apply {
        hdr.fields.known = meta.known;
        begun.apply();
        fixed.apply();
        standard.egress_spec = 2;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.fields); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
