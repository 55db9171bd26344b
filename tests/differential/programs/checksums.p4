/* IPv4, UDP over its payload, options of variable length, and errors of the parser told in the packet. */
#include <core.p4>
#include <v1model.p4>

error { NotFour, BadOption }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header options_t { varbit<320> bytes; }
header option_t { bit<8> kind; bit<8> length; }
header udp_t { bit<16> sport; bit<16> dport; bit<16> length; bit<16> checksum; }
header told_t { bit<8> code; bit<8> sum_error; bit<16> after; }
struct headers_t { told_t told; ethernet_t eth; ipv4_t ip; options_t options; option_t[3] tlv; udp_t udp; }
struct meta_t { bit<16> udp_length; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.eth);
        transition select(h.eth.type) { 0x0800: ip; 0x88b5: tlv; default: accept; }
    }
    state ip {
        p.extract(h.ip);
        verify(h.ip.version == 4, error.NotFour);
        verify(h.ip.ihl >= 5, error.HeaderTooShort);
        p.extract(h.options, (bit<32>) (((bit<16>) h.ip.ihl - 5) * 32));
        transition select(h.ip.protocol, h.ip.offset) { (17, 0): udp; default: accept; }
    }
    state udp { p.extract(h.udp); m.udp_length = h.udp.length; transition accept; }
    state tlv {
        transition select(p.lookahead<bit<8>>()) { 0: skip; 1 &&& 0xf3: option; 9: bad; default: accept; }
    }
    state skip { p.advance(8); transition tlv; }
    state option { p.extract(h.tlv.next); transition select(h.tlv.last.length) { 0: accept; default: tlv; } }
    state bad { verify(false, error.BadOption); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.ip.isValid() && h.ip.ihl == 5,
            { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.length, h.ip.id, h.ip.flags, h.ip.offset, h.ip.ttl,
              h.ip.protocol, h.ip.src, h.ip.dst }, h.ip.checksum, HashAlgorithm.csum16);
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        h.told.setValid();
        h.told.sum_error = (bit<8>) s.checksum_error;
        h.told.after = (bit<16>) s.packet_length;
        if (s.parser_error == error.NoError) { h.told.code = 1; }
        else if (s.parser_error == error.PacketTooShort) { h.told.code = 2; }
        else if (s.parser_error == error.NotFour) { h.told.code = 3; }
        else if (s.parser_error == error.HeaderTooShort) { h.told.code = 4; }
        else if (s.parser_error == error.StackOutOfBounds) { h.told.code = 5; }
        else if (s.parser_error == error.BadOption) { h.told.code = 6; }
        else { h.told.code = 7; }
        if (h.ip.isValid()) { h.ip.ttl = h.ip.ttl - 1; }
        if (h.tlv[1].isValid()) { h.tlv.pop_front(1); }
        else if (h.tlv[0].isValid()) { h.tlv.push_front(1); h.tlv[0].setValid(); h.tlv[0] = { 7, 7 }; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.isValid() && h.ip.ihl == 5,
            { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.length, h.ip.id, h.ip.flags, h.ip.offset, h.ip.ttl,
              h.ip.protocol, h.ip.src, h.ip.dst }, h.ip.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(h.udp.isValid(),
            { h.ip.src, h.ip.dst, 8w0, h.ip.protocol, h.udp.length, h.udp.sport, h.udp.dport, h.udp.length },
            h.udp.checksum, HashAlgorithm.csum16);
    }
}
control D(packet_out p, in headers_t h) {
    apply { p.emit(h.told); p.emit(h.eth); p.emit(h.ip); p.emit(h.options); p.emit(h.tlv); p.emit(h.udp); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
