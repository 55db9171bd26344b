// One of each entity that P4Runtime can touch, each with an effect that a frame shows.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;
const bit<16> TYPE_ROUTE = 0x1000;    // lpm table with an action selector
const bit<16> TYPE_ACL = 0x1001;      // ternary, range and optional keys
const bit<16> TYPE_FLOOD = 0x1002;    // multicast group 1
const bit<16> TYPE_CLONE = 0x1003;    // clone session 5, sent on to port 1
const bit<16> TYPE_DIGEST = 0x1004;
const bit<16> TYPE_PUNT = 0x1005;     // to the controller
const bit<16> TYPE_METER = 0x1006;
const bit<16> TYPE_CELL = 0x1007;     // register and counter
const bit<16> TYPE_AGE = 0x1008;      // entries with idle timeouts
const bit<16> TYPE_MEMBER = 0x1009;   // action profile without selector
const bit<16> TYPE_CONST = 0x100a;    // const entries

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header fields_t {
    bit<32> address;
    bit<16> number;
    bit<8> small;
    bit<8> mark;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> reason;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    fields_t fields;
}

struct learned_t {
    bit<48> mac;
    bit<9> port;
}

struct metadata_t {
    bit<1> known;
    bit<2> colour;
}

parser EntitiesParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard) {
    value_set<bit<16>>(4) field_types;

    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }
    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_ROUTE: fields;
            TYPE_ACL: fields;
            TYPE_CELL: fields;
            TYPE_CONST: fields;
            field_types: marked;
            default: accept;
        }
    }
    state marked {
        meta.known = 1;
        transition accept;
    }
    state fields {
        packet.extract(hdr.fields);
        transition accept;
    }
}

control EntitiesVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EntitiesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) forward_counter;
    direct_meter<bit<2>>(MeterType.packets) age_meter;
    counter(8, CounterType.packets_and_bytes) cells;
    register<bit<32>>(8) stored;
    meter(4, MeterType.packets) limits;
    action_selector(HashAlgorithm.crc32, 64, 16) next_hops;
    action_profile(16) members;

    action drop() {
        mark_to_drop(standard);
    }
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    action forward_counted(bit<9> port) {
        standard.egress_spec = port;
        forward_counter.count();
    }
    action mark(bit<9> port, bit<8> value) {
        standard.egress_spec = port;
        hdr.fields.mark = value;
    }
    action read_meter(bit<9> port) {
        standard.egress_spec = port;
        age_meter.read(meta.colour);
    }

    table forwarding {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward_counted; drop; @defaultonly NoAction; }
        size = 16;
        counters = forward_counter;
        default_action = NoAction();
    }
    table routes {
        key = { hdr.fields.address: lpm; hdr.fields.number: selector; }
        actions = { mark; drop; NoAction; }
        implementation = next_hops;
        size = 64;
    }
    table acl {
        key = {
            hdr.fields.address: ternary;
            hdr.fields.number: range;
            hdr.fields.small: optional;
        }
        actions = { mark; drop; @tableonly forward; NoAction; }
        size = 32;
        default_action = drop();
    }
    table fixed {
        key = { hdr.fields.number: exact; }
        actions = { mark; drop; }
        const entries = {
            7: mark(2, 0x77);
            8: mark(3, 0x88);
        }
        const default_action = drop();
    }
    table aging {
        key = { hdr.ethernet.src: exact; }
        actions = { read_meter; drop; NoAction; }
        support_timeout = true;
        meters = age_meter;
        default_action = NoAction();
    }
    table profiled {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; drop; NoAction; }
        implementation = members;
        size = 16;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
            exit;
        }
        if (meta.known == 1) {
            standard.egress_spec = 4;
            exit;
        }
        if (hdr.ethernet.type == TYPE_ROUTE) {
            drop();
            routes.apply();
        } else if (hdr.ethernet.type == TYPE_ACL) {
            acl.apply();
        } else if (hdr.ethernet.type == TYPE_FLOOD) {
            standard.mcast_grp = 1;
        } else if (hdr.ethernet.type == TYPE_CLONE) {
            clone(CloneType.I2E, 5);
            standard.egress_spec = 1;
        } else if (hdr.ethernet.type == TYPE_DIGEST) {
            digest<learned_t>(1, { hdr.ethernet.src, standard.ingress_port });
            drop();
        } else if (hdr.ethernet.type == TYPE_PUNT) {
            standard.egress_spec = CPU_PORT;
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard.ingress_port;
            hdr.packet_in.reason = 5;
        } else if (hdr.ethernet.type == TYPE_METER) {
            limits.execute_meter<bit<2>>(1, meta.colour);
            standard.egress_spec = 1;
            if (meta.colour != 0) {
                drop();
            }
        } else if (hdr.ethernet.type == TYPE_CELL) {
            bit<32> value;
            stored.read(value, (bit<32>) hdr.fields.small);
            cells.count((bit<32>) hdr.fields.small);
            hdr.fields.address = value;
            stored.write((bit<32>) hdr.fields.small, value + 1);
            standard.egress_spec = 1;
        } else if (hdr.ethernet.type == TYPE_AGE) {
            drop();
            aging.apply();
            if (meta.colour != 0) {
                drop();
            }
        } else if (hdr.ethernet.type == TYPE_MEMBER) {
            drop();
            profiled.apply();
        } else if (hdr.ethernet.type == TYPE_CONST) {
            fixed.apply();
        } else {
            drop();
            forwarding.apply();
        }
    }
}

control EntitiesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_rid != 0) {
            hdr.ethernet.src = (bit<48>) standard.egress_rid;
        }
    }
}

control EntitiesCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EntitiesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.fields);
    }
}

V1Switch(EntitiesParser(), EntitiesVerify(), EntitiesIngress(), EntitiesEgress(), EntitiesCompute(),
         EntitiesDeparser()) main;
