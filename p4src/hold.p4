/* Hold: a paused queue on a target whose traffic manager cannot stop one.
 *
 * Ingress gives every admitted packet its queue's next ticket. Egress lets a packet go only when its queue is not paused
 * and no packet with a lower ticket can still come; otherwise it sends it round: recirculated, ingress puts it
 * straight back at the end of its queue. Where the traffic manager obeys `pause_until` no packet is ever held.
 *
 * What makes it safe when the target drops a packet after admission (a full queue, a full recirculation buffer), so
 * that a ticket never comes:
 *   1. A queue is first in, first out, and fresh packets enter it in ticket order. So when a packet is seen, every lower
 *      ticket has been seen before, sent before, or is lost. If no packet is going round (`held_packets` = 0), none
 *      that was seen is still to be sent: the packet is next, whatever its ticket.
 *   2. Packets that go round keep their cyclic order. So between two visits of one packet all others that go round pass
 *      egress once. If the queue was not paused meanwhile (same `pause_epoch`, and not paused at either visit) and the
 *      head did not move, the head's packet did not pass: it is lost. The head then moves to the lowest ticket seen.
 * A loss therefore costs at most two turns of the packets that go round, never the order of the others, and never a standstill.
 * A packet behind the head (the target reordered) is late, and goes at once. */
#ifndef XOFF_HOLD
#define XOFF_HOLD

control Hold(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<32> queue = 0;
    ticks_t until = 0;
    bit<32> head = 0;
    bit<32> going_round = 0;
    bit<32> ahead = 0; // tickets between the head and this packet, modulo 2^32

    action look() {
        queue = (bit<32>) (meta.out_port ++ meta.out_class);
        pause_until.read(until, queue);
        ticket_head.read(head, queue);
        held_packets.read(going_round, queue);
        ahead = meta.ticket - head;
    }

    action take_turn() {
        ticket_head.write(queue, ahead[31:31] == 1 ? head : meta.ticket + 1);
        held_packets.write(queue, going_round |-| (bit<32>) meta.held);
        meta.wait = 0;
    }

    action go_round() {
        holds.count(queue);
        held_packets.write(queue, meta.held == 1 ? going_round : going_round + 1);
        meta.held = 1;
        meta.wait = 1;
    }

    bit<16> epoch = 0;
    bit<32> lowest = 0;

    action read_epoch() {
        pause_epoch.read(epoch, queue);
        ticket_lowest.read(lowest, queue);
        lowest = ahead < lowest - head ? meta.ticket : lowest;
        ticket_lowest.write(queue, lowest);
    }

    action skip_lost() {
        head = lowest == head ? head + 1 : lowest;
        ticket_head.write(queue, head);
        ahead = meta.ticket - head;
        lost.count(queue);
    }

    action remember() {
        meta.seen_head = head;
        meta.seen_epoch = epoch;
    }

    apply {
        look();
        if (until > sm.egress_global_timestamp) {
            meta.seen_head = meta.ticket + 1; // never the head while this packet waits: its turn has not begun
            go_round();
        } else {
            if (ahead != 0 && ahead[31:31] == 0) {
                if (going_round == 0) {
                    lost.count(queue);
                } else {
                    read_epoch();
                    if (meta.held == 1 && meta.seen_head == head && meta.seen_epoch == epoch) {
                        skip_lost();
                    }
                    remember();
                }
            }
            if (ahead == 0 || going_round == 0 || ahead[31:31] == 1) {
                take_turn();
            } else {
                go_round();
            }
        }
        if (meta.wait == 1) {
            recirculate_preserving_field_list(KEPT_BY_HELD);
        }
    }
}

#endif
