/* The program of every switch of the fabric. docs/fabric.md explains it with a picture.
 *
 * Invariants
 *  - Every frame that enters is sent, counted in one of the drop counters, or consumed (PFC, packet-out operations).
 *  - held_bytes, queue_bytes and port_bytes grow by a packet's `length` when ingress admits it and shrink by the same number
 *    when egress lets it go, exactly once: `admitted` travels with the packet, and nothing between drops it in P4. A
 *    frame that the target itself drops in between (which its queue limits must rule out) shows as `lost`; a target that
 *    obeys `@xoff_refused` shows it to egress, for REFUSED_PORT, so that it is taken off too.
 *  - Within one queue packets leave in the order of their tickets, whatever is lost (hold.p4).
 *  - xoff_mask says, for each ingress port and class, whether the upstream has been told to pause; every change is followed by a
 *    frame that carries the state of its own departure (pfc.p4), repeated by the timer while it stays (cpu.p4).
 *  - A copy or recirculated packet is told apart by its field list: `admitted` (held), `pfc_classes` (PFC), `timer`. */
#include <core.p4>
#include <v1model.p4>

#include "constants.p4"
#include "headers.p4"
#include "metadata.p4"
#include "parser.p4"
#include "state.p4"
#include "screen.p4"
#include "routing.p4"
#include "admission.p4"
#include "pfc.p4"
#include "hold.p4"
#include "departure.p4"
#include "cpu.p4"

control FabricIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    PacketOut() from_controller;
    TimerLap() timer_lap;
    Screen() screen;
    PfcReceive() pfc_receive;
    Routing() routing;
    Admission() admission;

    action return_held() {
        sm.egress_spec = meta.out_port;
        sm.priority = meta.out_class;
    }

    action queue_pfc() {
        sm.egress_spec = meta.pfc_port;
        sm.priority = PFC_CLASS;
    }

    action arrive() {
        meta.in_port = sm.ingress_port;
        meta.arrival = sm.ingress_global_timestamp;
        meta.length = sm.packet_length;
    }

    action classify() {
        meta.in_class = hdr.ipv4.isValid() ? hdr.ipv4.dscp[5:3] : hdr.ipv6.dscp[5:3];
    }

    action count_arrival() {
        rx.count((bit<32>) (meta.in_port ++ meta.in_class));
    }

    action count_roce() {
        bit<2> kind = hdr.cnp.isValid() ? 2w3
                    : (hdr.aeth.isValid() ? (hdr.aeth.syndrome[6:5] == 3 ? 2w2 : 2w1) : 2w0);
        roce.count((bit<32>) (meta.in_port ++ kind));
    }

    apply {
        if (sm.instance_type == RECIRCULATED) {
            if (meta.admitted == 1) {
                return_held();
            } else if (meta.pfc_classes != 0) {
                queue_pfc();
            } else {
                timer_lap.apply(hdr, meta, sm);
            }
        } else if (hdr.packet_out.isValid()) {
            from_controller.apply(hdr, meta, sm);
        } else {
            arrive();
            screen.apply(hdr, meta, sm);
            if (meta.drop_reason == DROP_NONE) {
                if (hdr.pfc.isValid()) {
                    pfc_receive.apply(hdr, meta, sm);
                } else {
                    classify();
                    count_arrival();
                    if (hdr.bth.isValid()) {
                        count_roce();
                    }
                    routing.apply(hdr, meta, sm);
                    if (meta.drop_reason == DROP_NONE) {
                        admission.apply(hdr, meta, sm);
                    }
                }
            }
        }
        if (meta.drop_reason != DROP_NONE) {
            drops.count((bit<32>) (meta.in_port ++ meta.drop_reason));
            mark_to_drop(sm);
        }
    }
}

control FabricEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Hold() hold;
    Departure() departure;
    PfcSend() pfc_send;
    Report() report;
    Refusal() refusal;

    action count_sent() {
        tx.count((bit<32>) (sm.egress_port ++ meta.out_class));
        bit<64> sent;
        tx_bytes.read(sent, (bit<32>) sm.egress_port);
        sent = sent + (bit<64>) (meta.wire_length > 60 ? meta.wire_length : 60) + 24;
        tx_bytes.write((bit<32>) sm.egress_port, sent);
    }

    apply {
        if (sm.egress_port == LOOP_PORT) {
            if (meta.report == 1) {
                clone_preserving_field_list(CloneType.E2E, REPORT_SESSION, KEPT_BY_COPY);
            }
            recirculate_preserving_field_list(KEPT_BY_COPY);
        } else if (sm.egress_port == TIMER_PORT) {
            meta.timer = 1;
            recirculate_preserving_field_list(KEPT_BY_TIMER);
        } else if (sm.egress_port == CPU_PORT) {
            report.apply(hdr, meta, sm);
        } else if (sm.egress_port == REFUSED_PORT) {
            if (meta.admitted == 1) {
                refusal.apply(meta, sm);
            }
            mark_to_drop(sm);
        } else {
            if (meta.admitted == 1) {
                hold.apply(hdr, meta, sm);
                if (meta.wait == 0) {
                    departure.apply(hdr, meta, sm);
                }
            } else if (meta.pfc_classes != 0) {
                pfc_send.apply(hdr, meta, sm);
            }
            if (meta.drop_reason != DROP_NONE) {
                drops.count((bit<32>) (meta.in_port ++ meta.drop_reason));
                mark_to_drop(sm);
            } else if (meta.wait == 0) {
                count_sent();
            }
        }
    }
}

V1Switch(FabricParser(), FabricVerifyChecksum(), FabricIngress(), FabricEgress(), FabricComputeChecksum(),
         FabricDeparser()) main;
