/* A switch that knows nothing at first: it tells its controller by digest where packets want to go, and drops them. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<8> version_ihl; bit<8> dscp_ecn; bit<16> length; bit<16> id; bit<16> fragment;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct wanted_t { bit<32> address; }
struct metadata_t { wanted_t wanted; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { packet.extract(hdr.ipv4); transition accept; }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action ask() {
        meta.wanted = { hdr.ipv4.dst };
        digest<wanted_t>(1, meta.wanted);
        mark_to_drop(sm);
    }
    action forward(bit<9> port, bit<48> mac) {
        sm.egress_spec = port;
        hdr.ethernet.dst = mac;
    }
    table hosts {
        key = { hdr.ipv4.dst: exact; }
        actions = { forward; ask; }
        default_action = ask();
    }
    apply {
        if (hdr.ipv4.isValid()) hosts.apply();
        else mark_to_drop(sm);
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
