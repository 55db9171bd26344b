// Counts frames in when ingress sends them to a queue, and out when egress sees them: for a port, or refused.
#include <core.p4>
#include <v1model.p4>

header frame_t {
    bit<16> port;
    bit<8> priority;
    bit<8> copy; // egress clones a refused frame into session 1
    bit<32> told; // 1: this is the copy
}
struct headers_t { frame_t frame; }
struct meta_t { bit<16> asked; }

@xoff_refused
register<bit<32>>(512) inside;  // by the port asked for
register<bit<32>>(512) refused; // by the same
register<bit<32>>(8) refused_by_class;

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { p.extract(h.frame); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        bit<32> count;
        m.asked = h.frame.port;
        inside.read(count, (bit<32>) m.asked);
        inside.write((bit<32>) m.asked, count + 1);
        sm.egress_spec = h.frame.port[8:0];
        sm.priority = h.frame.priority[2:0];
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        bit<32> count;
        if (sm.instance_type != 0) {
            h.frame.told = 1;
        } else {
            inside.read(count, (bit<32>) m.asked);
            inside.write((bit<32>) m.asked, count - 1);
            if (sm.egress_port == 511) {
                refused.read(count, (bit<32>) m.asked);
                refused.write((bit<32>) m.asked, count + 1);
                refused_by_class.read(count, (bit<32>) h.frame.priority);
                refused_by_class.write((bit<32>) h.frame.priority, count + 1);
                if (h.frame.copy == 1) {
                    clone(CloneType.E2E, 1);
                }
            }
        }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.frame); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
