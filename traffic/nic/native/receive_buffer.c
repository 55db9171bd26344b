/* A receive buffer that the host empties at a limited rate, and the PFC that guards it (receive_buffer.py). */
#include "nic.h"

static void arm(xn_nic *nic, uint64_t at, enum xn_timer_kind kind, uint32_t cls, uint64_t due) {
    xn_timer timer = {at, 0, kind, cls, 0, NULL, {NULL}};
    timer.u.due = due;
    xn_at(nic, timer);
}

static void begin(xn_nic *nic, uint64_t start_ps) {
    xn_receive_buffer *b = &nic->buffer;
    b->drained_ps = start_ps + xn_wire_ps(b->frames.head->length, nic->config.drain_bps);
    arm(nic, (b->drained_ps + 999) / 1000, XN_AT_TAKEN, 0, 0);
}

static void pause(xn_nic *nic, uint32_t cls, uint64_t now) {
    xn_receive_buffer *b = &nic->buffer;
    xn_send_pause(nic, cls, nic->config.pause_quanta, now);
    b->renewal[cls] = now + xn_repeat_ns(nic, nic->config.pause_quanta);
    arm(nic, b->renewal[cls], XN_AT_RENEWAL, cls, b->renewal[cls]);
}

int xn_buffer_push(xn_nic *nic, uint32_t cls, xf_packet *p, uint64_t now) {
    xn_receive_buffer *b = &nic->buffer;
    int alone = !b->frames.head;
    if (b->total + p->length > nic->config.limit_bytes) return 0;
    p->port = cls;
    list_push(&b->frames, p);
    b->total += p->length;
    if (b->total > b->peak) b->peak = b->total;
    b->bytes[cls] += p->length;
    if ((nic->config.pfc_classes >> cls & 1) && !b->xoff[cls] && b->bytes[cls] >= nic->config.xoff_bytes) {
        b->xoff[cls] = 1;
        pause(nic, cls, now);
    }
    if (alone) begin(nic, b->drained_ps > now * 1000 ? b->drained_ps : now * 1000);
    return 1;
}

void xn_buffer_taken(xn_nic *nic, uint64_t now) {
    xn_receive_buffer *b = &nic->buffer;
    xf_packet *p = list_pop(&b->frames);
    uint32_t cls = p->port;
    b->total -= p->length;
    b->bytes[cls] -= p->length;
    if (b->xoff[cls] && b->bytes[cls] <= nic->config.xon_bytes) {
        b->xoff[cls] = 0;
        b->renewal[cls] = 0;
        xn_send_pause(nic, cls, 0, now);
    }
    if (b->frames.head) begin(nic, b->drained_ps);
    xn_deliver(nic, p, now);
    packet_free(p);
}

void xn_buffer_renew(xn_nic *nic, uint32_t cls, uint64_t due, uint64_t now) {
    if (nic->buffer.xoff[cls] && nic->buffer.renewal[cls] == due) pause(nic, cls, now);
}
