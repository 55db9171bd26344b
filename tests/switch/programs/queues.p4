// A program for traffic-manager tests: every frame says what shall happen to it, and egress writes down what it saw.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<16> port;       // where to
    bit<8>  priority;
    bit<8>  op;
    bit<48> value;      // op 1: pause register's value
    bit<32> index;      // op 1: pause register's index
    bit<48> ingress_ts;
    bit<48> egress_ts;
    bit<32> enq_ts;
    bit<32> deq_delta;
    bit<32> enq_depth;
    bit<32> deq_depth;
    bit<32> packet_length;
    bit<32> passes;
}
const bit<8> PAUSE = 1;             // write the pause register, drop in ingress
const bit<8> EGRESS_DROP = 2;
const bit<8> RECIRCULATE = 3;       // three times, then out
const bit<8> PAUSE_IN_EGRESS = 4;   // write the pause register in egress, go out
const bit<8> RECIRCULATE_ALWAYS = 5;
const bit<8> RESUBMIT_ALWAYS = 6;
const bit<8> CLONE_IN_EGRESS = 7;   // every copy is cloned again

struct headers_t { probe_t probe; }
struct meta_t { @field_list(1) bit<8> unused; }

@xoff_queue_pause
register<bit<48>>(4096) pause;

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { p.extract(h.probe); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = h.probe.port[8:0];
        sm.priority = h.probe.priority[2:0];
        h.probe.ingress_ts = sm.ingress_global_timestamp;
        h.probe.passes = h.probe.passes + 1;
        if (h.probe.op == PAUSE) {
            pause.write(h.probe.index, h.probe.value);
            mark_to_drop(sm);
        } else if (h.probe.op == RESUBMIT_ALWAYS) {
            resubmit_preserving_field_list(1);
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        h.probe.egress_ts = sm.egress_global_timestamp;
        h.probe.enq_ts = sm.enq_timestamp;
        h.probe.deq_delta = sm.deq_timedelta;
        h.probe.enq_depth = (bit<32>)sm.enq_qdepth;
        h.probe.deq_depth = (bit<32>)sm.deq_qdepth;
        h.probe.packet_length = sm.packet_length;
        if (h.probe.op == EGRESS_DROP) {
            mark_to_drop(sm);
        } else if (h.probe.op == RECIRCULATE && h.probe.passes < 4 || h.probe.op == RECIRCULATE_ALWAYS) {
            recirculate_preserving_field_list(1);
        } else if (h.probe.op == PAUSE_IN_EGRESS) {
            pause.write(h.probe.index, h.probe.value);
        } else if (h.probe.op == CLONE_IN_EGRESS) {
            clone_preserving_field_list(CloneType.E2E, 1, 1);
        }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.probe); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
