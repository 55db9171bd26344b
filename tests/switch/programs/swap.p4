// Everything that a Write can change in ingress, one byte of the frame each; and a table in egress.
#include <core.p4>
#include <v1model.p4>

header seen_t {
    bit<8> set;      // by the parser's value set
    bit<8> first;    // by an exact table
    bit<8> second;   // by a ternary table
    bit<8> member;   // by a member of an action profile
    bit<8> chosen;   // by a group of an action selector
    bit<8> fallback; // by a default entry
    bit<8> cell;     // by a register
    bit<8> colour;   // by a meter: green or red
    bit<8> copy;     // by the instance of a multicast replica
    bit<8> departure; // by a table in egress
}
struct headers_t { seen_t seen; }
struct metadata_t { bit<8> known; bit<8> colour; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<bit<8>>(4) special;
    state start {
        packet.extract(hdr.seen);
        transition select(hdr.seen.set) { special: known; default: accept; }
    }
    state known { meta.known = 1; transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(2) cells;
    counter(2, CounterType.packets) counted;
    meter(2, MeterType.packets) limits;
    action_profile(16) members;
    action_selector(HashAlgorithm.crc32, 16, 16) choices;
    action set_first(bit<8> v) { hdr.seen.first = v; }
    action set_second(bit<8> v) { hdr.seen.second = v; }
    action set_member(bit<8> v) { hdr.seen.member = v; }
    action set_chosen(bit<8> v) { hdr.seen.chosen = v; }
    action set_fallback(bit<8> v) { hdr.seen.fallback = v; }
    table first { key = { hdr.seen.departure: exact; } actions = { set_first; } size = 16; }
    table second { key = { hdr.seen.departure: ternary; } actions = { set_second; } size = 16; }
    table profiled { key = { hdr.seen.departure: exact; } actions = { set_member; } implementation = members; size = 16; }
    table selected {
        key = { hdr.seen.departure: exact; hdr.seen.copy: selector; }
        actions = { set_chosen; }
        implementation = choices;
        size = 16;
    }
    table keyless { actions = { set_fallback; } default_action = set_fallback(0); }
    apply {
        hdr.seen.set = meta.known;
        first.apply();
        second.apply();
        profiled.apply();
        selected.apply();
        keyless.apply();
        cells.read(hdr.seen.cell, 0);
        counted.count(0);
        limits.execute_meter<bit<8>>(0, meta.colour);
        hdr.seen.colour = meta.colour == 2 ? 8w1 : 8w0;
        standard.mcast_grp = 1;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action set_departure(bit<8> v) { hdr.seen.departure = v; }
    table leaving { actions = { set_departure; } default_action = set_departure(0); }
    apply { hdr.seen.copy = (bit<8>) standard.egress_rid; leaving.apply(); }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.seen); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
