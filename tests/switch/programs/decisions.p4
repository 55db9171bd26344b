// Every decision at the end of ingress and egress, chosen by the frame; egress writes down what it saw.
#include <core.p4>
#include <v1model.p4>

header ctl_t {
    bit<8>  op;
    bit<8>  first_type;     // instance_type in ingress
    bit<8>  last_type;      // in egress
    bit<16> ingress_port;
    bit<16> egress_port;
    bit<16> rid;
    bit<32> packet_length;
    bit<32> first_length;
    bit<8>  kept;           // user metadata of the field list
    bit<8>  lost;           // user metadata outside it
    bit<8>  passes;
    bit<8>  error_code;
}
header extra_t { bit<32> value; }

struct headers_t { ctl_t ctl; extra_t extra; }
struct meta_t {
    @field_list(1) bit<8> kept;
    bit<8> lost;
}
struct sample_t { bit<8> op; bit<16> port; bit<72> wide; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        p.extract(h.ctl);
        transition select(h.ctl.op) {
            20: lengthy;
            21: checked;
            default: accept;
        }
    }
    state lengthy { p.extract(h.extra); transition accept; }
    state checked { verify(h.ctl.passes != 9, error.NoMatch); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        h.ctl.passes = h.ctl.passes + 1;
        h.ctl.first_type = (bit<8>)sm.instance_type;
        h.ctl.first_length = sm.packet_length;
        h.ctl.error_code = sm.parser_error == error.NoError ? 8w0 : 8w1;
        if (sm.instance_type == 0) {
            m.kept = 0x11;
            m.lost = 0x22;
        }
        sm.egress_spec = 2;
        if (h.ctl.op == 1) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            m.kept = 0x33;      // the copy sees the final value
        } else if (h.ctl.op == 2) {
            sm.mcast_grp = 7;
        } else if (h.ctl.op == 3) {
            sm.mcast_grp = 7;
            mark_to_drop(sm);
        } else if (h.ctl.op == 4) {
            mark_to_drop(sm);
            sm.egress_spec = 3;
        } else if (h.ctl.op == 5) {
            if (sm.instance_type == 0) { resubmit_preserving_field_list(1); }
        } else if (h.ctl.op == 6) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            mark_to_drop(sm);
        } else if (h.ctl.op == 7) {
            if (sm.instance_type == 0) {
                clone_preserving_field_list(CloneType.I2E, 5, 1);
                resubmit_preserving_field_list(1);
            }
        } else if (h.ctl.op == 8) {
            digest<sample_t>(1, { h.ctl.op, (bit<16>)sm.ingress_port, h.ctl.rid ++ h.ctl.packet_length ++ 24w0xabcdef });
            mark_to_drop(sm);
        } else if (h.ctl.op == 13) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            clone_preserving_field_list(CloneType.I2E, 6, 1);
        } else if (h.ctl.op == 14) {
            exit;
        } else if (h.ctl.op == 16) {
            clone_preserving_field_list(CloneType.I2E, 99, 1);   // no such session
        } else if (h.ctl.op == 17) {
            sm.mcast_grp = 99;                                      // no such group
        } else if (h.ctl.op == 18) {
            clone_preserving_field_list(CloneType.I2E, 8, 1);    // a session with a multicast group
        } else if (h.ctl.op == 19) {
            h.extra.setValid();
            h.extra.value = 0xdeadbeef;
        } else if (h.ctl.op == 20) {
            h.extra.setInvalid();
        } else if (h.ctl.op == 22) {
            truncate(26);
        } else if (h.ctl.op == 23) {
            truncate(26);
            sm.mcast_grp = 7;                                       // replicas are whole
        }
        if (h.ctl.op == 14) { sm.egress_spec = 3; }                 // never reached
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        h.ctl.last_type = (bit<8>)sm.instance_type;
        h.ctl.ingress_port = (bit<16>)sm.ingress_port;
        h.ctl.egress_port = (bit<16>)sm.egress_port;
        h.ctl.rid = sm.egress_rid;
        h.ctl.packet_length = sm.packet_length;
        h.ctl.kept = m.kept;
        h.ctl.lost = m.lost;
        if (h.ctl.op == 9) {
            if (h.ctl.passes < 3) { recirculate_preserving_field_list(1); }
            m.kept = m.kept + 1;
        } else if (h.ctl.op == 10 || h.ctl.op == 11) {
            if (sm.instance_type == 0) {
                clone_preserving_field_list(CloneType.E2E, 5, 1);
                m.kept = 0x44;
                if (h.ctl.op == 11) { mark_to_drop(sm); }
            }
        } else if (h.ctl.op == 12) {
            truncate(25);
        } else if (h.ctl.op == 15) {
            sm.egress_spec = 4;     // has no effect
        }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.ctl); p.emit(h.extra); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
