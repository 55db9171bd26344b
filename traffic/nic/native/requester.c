/* The sending half of an RC queue pair (requester.py).
 *
 * Messages hang in one list, oldest first; what is still to be sent is its tail from `to_send` on. */
#include "nic.h"

enum { WRITE_FIRST = 0x06, WRITE_MIDDLE = 0x07, WRITE_LAST_IMM = 0x09, WRITE_ONLY_IMM = 0x0b };
enum { SEND_FIRST = 0x00, SEND_MIDDLE = 0x01, SEND_LAST_IMM = 0x03, SEND_ONLY_IMM = 0x05 };
#define REMOTE_KEY 0x1000u
#define MAX_OUTSTANDING (1u << 22)
#define ACK_REQUEST 0x80000000u
#define SYNDROME_KIND 0x60u
#define KIND_ACK 0x00u
#define KIND_NAK 0x60u
#define NAK_PSN_SEQUENCE 0x60u
#define ECT0 2u
#define PAYLOAD_OFFSET 128u /* more than any headers before a payload: 14 + 40 + 8 + 16 + 12 + 20 */

void xn_requester_init(xn_pair *pair) {
    xn_requester *r = &pair->requester;
    const xn_config *config = &pair->nic->config;
    r->traffic_class = pair->config.traffic_class;
    r->una = r->next_psn = r->sent_psn = r->tail_psn = pair->config.send_psn;
    r->rto = config->rto_ns;
    r->furthest = config->echo && config->reorder_window ? config->reorder_window : MAX_OUTSTANDING - 1;
    xn_flow_init(&r->flow, config, &pair->config, r->traffic_class << 3, ECT0);
    xn_reps_init(&r->reps, config, &pair->config);
}

static void works_free(xn_requester *r) {
    while (r->unacked) {
        xn_work *w = r->unacked;
        r->unacked = w->next;
        free(w);
    }
    r->last = r->to_send = NULL;
}

void xn_requester_free(xn_pair *pair) {
    works_free(&pair->requester);
    xn_cc_free(&pair->requester.cc);
}

void xn_requester_post(xn_requester *r, xn_work *work, uint32_t mtu, uint64_t now) {
    uint64_t packets = (work->bytes + mtu - 1) / mtu;
    work->next = NULL;
    work->first_psn = r->tail_psn;
    work->end_psn = r->tail_psn += packets ? packets : 1;
    work->posted = now;
    work->started = XN_NEVER;
    if (r->last) r->last->next = work;
    else r->unacked = work;
    r->last = work;
    if (!r->to_send) r->to_send = work;
}

int xn_has_next(const xn_requester *r, const xn_config *config) {
    uint64_t ahead, flight;
    if (!r->to_send || r->failed || r->stopped) return 0;
    ahead = r->next_psn - r->una;
    flight = config->echo ? r->unanswered : ahead;
    return ahead <= r->furthest && (r->cc.window < 0 || flight * config->mtu < (uint64_t)r->cc.window);
}

static void arm(xn_requester *r, uint64_t at) {
    xn_pair *pair = xn_pair_of(r);
    xn_timer timer = {at, 0, XN_AT_TIMEOUT, 0, 0, pair, {NULL}};
    r->armed = 1;
    xn_at(pair->nic, timer);
}

static void restart_timer(xn_requester *r, uint64_t now) {
    r->deadline = now + r->rto;
    if (!r->armed) arm(r, r->deadline);
}

static xf_packet *build(xn_requester *r, uint32_t opcode, uint32_t size, uint32_t word, const xn_work *work) {
    xn_pair *pair = xn_pair_of(r);
    const xn_nic *nic = pair->nic;
    const xn_config *config = &nic->config;
    uint32_t mtu = config->mtu, pad = -size & 3, icrc, head, i;
    uint32_t first = opcode == WRITE_FIRST || opcode == WRITE_ONLY_IMM;
    uint32_t immediate = opcode != WRITE_FIRST && opcode != WRITE_MIDDLE && opcode != SEND_FIRST && opcode != SEND_MIDDLE;
    uint32_t extended = (first ? 16 : 0) + (immediate ? 4 : 0);
    uint32_t before = 14 + r->flow.network_bytes + 8 + config->shim_bytes + 12 + extended;
    /* The payload always lies at the same place of its block, where its last use may have left it. */
    xf_packet *p = packet_new_stamped(nic->pool, PAYLOAD_OFFSET + size + pad + 4);
    uint8_t *at;
    if (!p) return NULL;
    at = p->data += PAYLOAD_OFFSET - before;
    if (!extended && size == mtu) {
        if (r->middle_bytes == 0 || r->middle_opcode != opcode) {
            r->middle_bytes = xn_head(&r->flow, r->middle, opcode, size + pad, pad, 0, config->shim,
                                      config->shim_bytes, &r->middle_icrc);
            r->middle_opcode = opcode;
        }
        memcpy(at, r->middle, r->middle_bytes);
        head = r->middle_bytes;
        icrc = r->middle_icrc;
    } else {
        head = xn_head(&r->flow, at, opcode, extended + size + pad, pad, 0, config->shim, config->shim_bytes, &icrc);
    }
    if (config->reps_buffer) icrc ^= xn_set_port(&r->flow, at, xn_reps_next(&r->reps, config));
    at += head;
    xf_store32(at, word);
    if (first) {
        memset(at + 4, 0, 8);
        xf_store32(at + 12, REMOTE_KEY);
        xf_store32(at + 16, work->bytes);
    }
    if (immediate) xf_store32(at + extended, work->id);
    if (p->stamp != nic->payload->data || p->stamp_at != at + 4 + extended || p->stamp_bytes < size)
        memcpy(at + 4 + extended, nic->payload->data, size);
    p->stamp = nic->payload->data;
    p->stamp_at = at + 4 + extended;
    p->stamp_bytes = size;
    for (i = 0; i < pad; i++) at[4 + extended + size + i] = 0;
    if (size == mtu && !pad)
        icrc = xn_crc_payload(xn_crc(icrc, at, 4 + extended), nic->payload);
    else
        icrc = xn_crc(icrc, at, 4 + extended + size + pad);
    at += 4 + extended + size + pad;
    for (i = 0; i < 4; i++) at[i] = (uint8_t)(icrc >> (8 * i));
    p->length = (uint32_t)(at + 4 - p->data);
    return p;
}

xf_packet *xn_next_frame(xn_requester *r, uint64_t start_ps) {
    const xn_config *config = &xn_pair_of(r)->nic->config;
    uint64_t now = start_ps / 1000, psn = r->next_psn, wire;
    uint32_t mtu = config->mtu, size, opcode, word;
    xn_work *work = r->to_send;
    int first, last;
    xf_packet *p;
    if (!xn_has_next(r, config)) return NULL;
    first = psn == work->first_psn;
    last = psn + 1 == work->end_psn;
    size = last ? (uint32_t)(work->bytes - (psn - work->first_psn) * mtu) : mtu;
    r->next_psn = psn + 1;
    r->unanswered++;
    if (last) {
        opcode = work->write ? (first ? WRITE_ONLY_IMM : WRITE_LAST_IMM) : (first ? SEND_ONLY_IMM : SEND_LAST_IMM);
        r->to_send = work->next;
    } else {
        opcode = work->write ? (first ? WRITE_FIRST : WRITE_MIDDLE) : (first ? SEND_FIRST : SEND_MIDDLE);
    }
    word = (uint32_t)psn & XN_PSN_MASK;
    if (last || (psn + 1) % config->ack_interval == 0 || !xn_has_next(r, config)) word |= ACK_REQUEST;
    p = build(r, opcode, size, word, work);
    if (psn < r->sent_psn) {
        r->retransmitted++;
        work->retransmitted++;
    } else {
        r->sent_psn = psn + 1;
        r->bytes_sent += size;
        if (first) work->started = now;
    }
    if (p) {
        wire = xn_wire_bytes(p->length);
        xn_cc_advance(&r->cc, now);
        xn_cc_sent(&r->cc, (uint32_t)wire);
        if (r->cc.rate < r->cc.line) r->next_ps = start_ps + (uint64_t)(int64_t)(xn_double(wire * 8 * PS_PER_S) / r->cc.rate);
    }
    if (!r->deadline) restart_timer(r, now);
    return p;
}

/* ---- acknowledgements ---- */

static void go_back(xn_requester *r) {
    r->next_psn = r->una;
    r->unanswered = 0;
    for (r->to_send = r->unacked; r->to_send && r->to_send->end_psn <= r->una;) r->to_send = r->to_send->next;
    r->deadline = 0;
}

static void fail(xn_pair *pair, enum xn_failure reason, uint64_t now) {
    xn_requester *r = &pair->requester;
    r->failed = (uint8_t)reason;
    r->deadline = 0;
    r->to_send = NULL;
    xn_fail_all(pair, now);
}

static void tell(xn_pair *pair, const xn_work *work, enum xn_notice notice, uint64_t now) {
    xn_message message;
    memset(&message, 0, sizeof message);
    message.bytes = work->bytes;
    message.posted = work->posted;
    message.started = work->started;
    message.first_psn = work->first_psn;
    message.end_psn = work->end_psn;
    message.now = now;
    message.notice = notice;
    message.qpn = pair->config.qpn;
    message.id = work->id;
    message.has_id = 1;
    message.retransmitted = work->retransmitted;
    message.failure = pair->requester.failed;
    message.write = work->write;
    xn_tell(pair->nic, &message);
}

static void progress(xn_pair *pair, uint64_t acked, const uint8_t *echoed, uint32_t bytes, uint64_t now) {
    xn_requester *r = &pair->requester;
    r->una = acked;
    if (r->next_psn < acked) { /* acknowledged while going back */
        r->next_psn = acked;
        while (r->to_send && r->to_send->end_psn <= acked) r->to_send = r->to_send->next;
    }
    r->retries = 0;
    r->rto = pair->nic->config.rto_ns;
    if (acked < r->next_psn) restart_timer(r, now);
    else r->deadline = r->unanswered = 0;
    xn_cc_advance(&r->cc, now);
    xn_cc_ack(&r->cc, acked, r->next_psn, echoed, bytes);
    while (r->unacked && r->unacked->end_psn <= acked) {
        xn_work *work = r->unacked;
        r->unacked = work->next;
        if (!r->unacked) r->last = NULL;
        r->bytes_acked += work->bytes;
        tell(pair, work, XN_SENT, now);
        free(work);
    }
}

static void lost(xn_pair *pair, uint64_t now) {
    const xn_config *config = &pair->nic->config;
    if (config->reps_buffer) xn_reps_failure(&pair->requester.reps, config, now);
    xn_cc_loss(&pair->requester.cc);
    go_back(&pair->requester);
}

void xn_on_acknowledge(xn_pair *pair, const xn_reading *packet, uint64_t now) {
    xn_requester *r = &pair->requester;
    const xn_config *config = &pair->nic->config;
    uint32_t syndrome = packet->body[0], kind = syndrome & SYNDROME_KIND;
    int64_t distance = (int64_t)((packet->psn - (uint32_t)r->una) & XN_PSN_MASK), acked, una = (int64_t)r->una;
    if (r->failed) return;
    if (config->echo) {
        if (r->unanswered) r->unanswered--;
        if (config->reps_buffer) xn_reps_ack(&r->reps, config, packet->source_port, packet->becn, now);
        xn_cc_echo(&r->cc, packet->becn);
    }
    if (distance & 0x800000) distance -= XN_PSN_MASK + 1;
    acked = una + distance + (kind == KIND_ACK);
    if (acked > (int64_t)r->sent_psn || acked < una || (kind == KIND_ACK && acked == una)) {
        r->stale_acks++;
        return;
    }
    if (kind == KIND_NAK && syndrome != NAK_PSN_SEQUENCE) {
        fail(pair, XN_REMOTE_ERROR, now);
        return;
    }
    if (acked > una) progress(pair, (uint64_t)acked, packet->telemetry, packet->telemetry_bytes, now);
    if (syndrome == NAK_PSN_SEQUENCE && (int64_t)r->next_psn > acked) {
        xn_log(pair->nic, XN_NAKED, pair->config.qpn, 0, now, (uint64_t)acked & XN_PSN_MASK);
        lost(pair, now);
    }
}

/* ---- timer and failure ---- */

void xn_on_timeout(xn_pair *pair, uint64_t now) {
    xn_requester *r = &pair->requester;
    const xn_config *config = &pair->nic->config;
    r->armed = 0;
    if (!r->deadline || r->failed || r->stopped) return;
    if (r->deadline > now) {
        arm(r, r->deadline);
        return;
    }
    if (r->retries >= config->retry_limit) {
        fail(pair, XN_RETRY_EXCEEDED, now);
        return;
    }
    r->retries++;
    r->rto = (uint64_t)xn_round(xn_double(r->rto) * config->rto_backoff);
    xn_log(pair->nic, XN_TIMED_OUT, pair->config.qpn, 0, now, r->una & XN_PSN_MASK);
    lost(pair, now);
}

void xn_fail_all(xn_pair *pair, uint64_t now) {
    xn_requester *r = &pair->requester;
    xn_work *work = r->unacked;
    r->unacked = r->last = r->to_send = NULL;
    while (work) {
        xn_work *next = work->next;
        tell(pair, work, XN_FAILED, now);
        free(work);
        work = next;
    }
}
