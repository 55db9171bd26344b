// Stateful externs, hashes, checksums, value sets and messages, one by one as the frame asks.
#include <core.p4>
#include <v1model.p4>

header ask_t {
    bit<8>  op;
    bit<32> index;
    bit<64> low;
    bit<64> high;
    bit<64> result;
    bit<128> wide;
}
header ip_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header udp_t { bit<16> sport; bit<16> dport; bit<16> length; bit<16> checksum; }
struct headers_t { ask_t ask; ip_t ip; udp_t udp; }
struct meta_t { bit<8> in_set; }
struct member_t { bit<8> op; bit<32> index; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    value_set<member_t>(4) special;
    state start {
        p.extract(h.ask);
        transition select(h.ask.op, h.ask.index) {
            special: in_the_set;
            (30 .. 39, _): ip;
            default: accept;
        }
    }
    state in_the_set { m.in_set = 1; transition accept; }
    state ip { p.extract(h.ip); p.extract(h.udp); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.length, h.ip.id, h.ip.flags, h.ip.offset,
            h.ip.ttl, h.ip.protocol, h.ip.src, h.ip.dst }, h.ip.checksum, HashAlgorithm.csum16);
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    counter(8, CounterType.packets_and_bytes) plain;
    register<bit<48>>(8) cells;
    register<bit<128>>(4) wide_cells;
    register<bit<1>>(8) flags;
    meter(4, MeterType.bytes) byte_meter;
    meter(4, MeterType.packets) packet_meter;
    bit<48> cell;
    bit<1> one;
    bit<2> colour;
    apply {
        sm.egress_spec = sm.ingress_port;
        if (h.ask.op == 0) { plain.count(h.ask.index); }
        else if (h.ask.op == 1) { cells.write(h.ask.index, h.ask.low[47:0]); }
        else if (h.ask.op == 2) { cell = 0x99; cells.read(cell, h.ask.index); h.ask.result = (bit<64>)cell; }
        else if (h.ask.op == 3) { wide_cells.write(h.ask.index, h.ask.wide); }
        else if (h.ask.op == 4) { wide_cells.read(h.ask.wide, h.ask.index); }
        else if (h.ask.op == 5) { flags.read(one, h.ask.index); h.ask.result = (bit<64>)one; flags.write(h.ask.index, one ^ 1); }
        else if (h.ask.op == 6) { byte_meter.execute_meter(h.ask.index, colour); h.ask.result = (bit<64>)colour; }
        else if (h.ask.op == 7) { packet_meter.execute_meter(h.ask.index, colour); h.ask.result = (bit<64>)colour; }
        else if (h.ask.op == 8) { random(h.ask.result, h.ask.low, h.ask.high); }
        else if (h.ask.op == 10) { hash(h.ask.result, HashAlgorithm.crc16, h.ask.low, { h.ask.index, h.ask.wide }, h.ask.high); }
        else if (h.ask.op == 11) { hash(h.ask.result, HashAlgorithm.crc32, h.ask.low, { h.ask.index, h.ask.wide }, h.ask.high); }
        else if (h.ask.op == 12) { hash(h.ask.result, HashAlgorithm.csum16, h.ask.low, { h.ask.index, h.ask.wide }, h.ask.high); }
        else if (h.ask.op == 13) { hash(h.ask.result, HashAlgorithm.xor16, h.ask.low, { h.ask.index, h.ask.wide }, h.ask.high); }
        else if (h.ask.op == 14) { hash(h.ask.result, HashAlgorithm.identity, h.ask.low, { h.ask.index, h.ask.wide }, h.ask.high); }
        else if (h.ask.op == 15) {
            // An odd number of bits, padded with zeros at the end.
            hash(h.ask.result, HashAlgorithm.crc32, h.ask.low, { h.ask.index[2:0], h.ask.wide[6:0] }, h.ask.high);
        }
        else if (h.ask.op == 16) {
            for (bit<64> i = 0; i < h.ask.low; i = i + 1) { h.ask.result = h.ask.result + i; }
        }
        else if (h.ask.op == 20) { log_msg("index {} of {}", { h.ask.index, h.ask.low }); }
        else if (h.ask.op == 21) { assert(h.ask.index != 0); }
        else if (h.ask.op == 22) { h.ask.result = (bit<64>)m.in_set; }
        else if (h.ask.op >= 30) { h.ask.result = (bit<64>)sm.checksum_error; h.ip.ttl = h.ip.ttl - 1; }
        if (m.in_set == 1) { h.ask.result = 0x5e7; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.length, h.ip.id, h.ip.flags, h.ip.offset,
            h.ip.ttl, h.ip.protocol, h.ip.src, h.ip.dst }, h.ip.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(h.udp.isValid(), { h.ip.src, h.ip.dst, 8w0, h.ip.protocol, h.udp.length, h.udp.sport,
            h.udp.dport, h.udp.length, 16w0 }, h.udp.checksum, HashAlgorithm.csum16);
    }
}
control D(packet_out p, in headers_t h) { apply { p.emit(h.ask); p.emit(h.ip); p.emit(h.udp); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
