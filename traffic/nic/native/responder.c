/* The receiving half of an RC queue pair (responder.py). */
#include "nic.h"

enum { ACKNOWLEDGE = 0x11, CNP = 0x81 };
#define ANY_LENGTH (-1)
#define ACK_UNLIMITED 0x1fu
#define NAK_PSN_SEQUENCE 0x60u
#define NAK_INVALID_REQUEST 0x61u
#define CNP_PAYLOAD_BYTES 16u
#define AETH_BYTES 4u
#define CE 3u

typedef struct shape {
    uint8_t first, last, write, immediate, header_bytes;
} shape;

/* By opcode: SEND, then RDMA WRITE: FIRST, MIDDLE, LAST, LAST with immediate, ONLY, ONLY with immediate. */
static const shape shapes[12] = {
    {1, 0, 0, 0, 0},  {0, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 1, 0, 1, 4}, {1, 1, 0, 0, 0},  {1, 1, 0, 1, 4},
    {1, 0, 1, 0, 16}, {0, 0, 1, 0, 0}, {0, 1, 1, 0, 0}, {0, 1, 1, 1, 4}, {1, 1, 1, 0, 16}, {1, 1, 1, 1, 20},
};

int xn_responder_init(xn_pair *pair) {
    xn_responder *r = &pair->responder;
    const xn_config *config = &pair->nic->config;
    uint32_t room = 1;
    r->expected = pair->config.receive_psn;
    r->gap_since = XN_NEVER;
    r->announced = ANY_LENGTH;
    while (room <= config->reorder_window) room *= 2;
    r->early_mask = room - 1;
    xn_flow_init(&r->flow, config, &pair->config, pair->config.traffic_class << 3, 0);
    xn_flow_init(&r->cnp_flow, config, &pair->config, config->cnp_class << 3, 0);
    return 1;
}

void xn_responder_free(xn_pair *pair) {
    free(pair->responder.early);
    free(pair->responder.telemetry);
}

static void send(xn_pair *pair, enum xn_control_kind kind, uint32_t cls, uint32_t entropy, uint32_t marked) {
    xn_control item;
    item.kind = kind;
    item.entropy = (uint16_t)entropy;
    item.marked = (uint16_t)marked;
    item.u.pair = pair;
    xn_send(pair->nic, cls, item);
}

int xn_on_congestion(xn_pair *pair, uint64_t now) {
    xn_responder *r = &pair->responder;
    int64_t interval = pair->nic->config.cnp_interval_ns;
    if (interval < 0 || now < r->next_cnp) return 0;
    r->next_cnp = now + (uint64_t)interval;
    r->cnps++;
    send(pair, XN_CNP, pair->nic->config.cnp_class, 0, 0);
    return 1;
}

/* ---- data ---- */

static void respond(xn_pair *pair) {
    xn_responder *r = &pair->responder;
    if (r->response_queued || pair->nic->config.echo) return; /* each packet has its own answer */
    r->response_queued = 1;
    send(pair, XN_RESPONSE, pair->config.traffic_class, 0, 0);
}

/* The next packet in order; 0 (and the error state) when it does not fit the message. */
static int accept(xn_pair *pair, const shape *s, uint32_t size, int64_t announced, uint32_t immediate, uint64_t now) {
    xn_responder *r = &pair->responder;
    uint32_t mtu = pair->nic->config.mtu;
    xn_message message;
    int fits;
    if (s->first) {
        fits = !r->in_message;
        r->in_message = 1;
        r->writing = s->write;
        r->announced = announced;
        r->received = 0;
    } else {
        fits = r->in_message && r->writing == s->write;
    }
    r->received += size;
    if (s->last) fits = fits && size <= mtu && (r->announced == ANY_LENGTH || r->announced == r->received);
    else fits = fits && size == mtu;
    if (!fits) {
        r->failed = 1;
        r->nak_due = NAK_INVALID_REQUEST;
        respond(pair);
        return 0;
    }
    r->expected++;
    r->bytes_received += size;
    pair->nic->stats.bytes_received += size;
    if (s->last) {
        r->in_message = 0;
        r->msn++;
        memset(&message, 0, sizeof message);
        message.bytes = (uint64_t)r->received;
        message.now = now;
        message.notice = XN_RECEIVED;
        message.qpn = pair->config.qpn;
        message.id = immediate;
        message.has_id = s->immediate;
        xn_tell(pair->nic, &message);
    }
    return 1;
}

static xn_early *early_at(xn_responder *r, uint64_t psn) {
    xn_early *e = r->early ? &r->early[psn & r->early_mask] : NULL;
    return e && e->valid && e->psn == psn ? e : NULL;
}

static enum xn_drop open_gap(xn_pair *pair, uint64_t distance, const xn_early *early, uint64_t now) {
    xn_responder *r = &pair->responder;
    const xn_config *config = &pair->nic->config;
    int kept = distance <= config->reorder_window;
    if (r->gap_since == XN_NEVER) r->gap_since = now;
    if (kept && !r->early) {
        r->early = calloc(r->early_mask + 1, sizeof *r->early);
        kept = r->early != NULL;
    }
    if (kept) {
        r->early[early->psn & r->early_mask] = *early;
        if (++r->early_count > r->early_peak) r->early_peak = r->early_count;
    }
    if (!r->nak_sent && (!kept || now - r->gap_since > config->reorder_ns)) {
        r->nak_sent = 1;
        r->naks++;
        r->nak_due = NAK_PSN_SEQUENCE;
        respond(pair);
    }
    return kept ? XN_ACCEPTED : XN_DROP_OUT_OF_ORDER;
}

/* Takes the kept packets that are in order now; whether one of them asked for an ACK. */
static uint32_t close_gap(xn_pair *pair, uint64_t now) {
    xn_responder *r = &pair->responder;
    uint32_t ack_request = 0;
    xn_early *e;
    r->nak_sent = 0;
    r->nak_due = 0;
    while ((e = early_at(r, r->expected))) {
        e->valid = 0;
        r->early_count--;
        if (!accept(pair, &shapes[e->opcode], e->size, e->announced, e->immediate, now)) break;
        ack_request |= e->ack_request;
    }
    r->gap_since = r->early_count ? now : XN_NEVER;
    return ack_request;
}

static enum xn_drop take(xn_pair *pair, const xn_reading *packet, uint64_t now) {
    xn_responder *r = &pair->responder;
    const shape *s = &shapes[packet->opcode];
    const uint8_t *at = packet->body;
    int64_t distance = (int64_t)((packet->psn - (uint32_t)r->expected) & XN_PSN_MASK), announced = ANY_LENGTH;
    uint32_t size, immediate = 0, ack_request;
    if (r->failed) return XN_DROP_QP_ERROR;
    if (packet->telemetry) {
        if (!r->telemetry) r->telemetry = malloc(XN_MAX_SHIM);
        if (r->telemetry) {
            memcpy(r->telemetry, packet->telemetry, packet->telemetry_bytes);
            r->telemetry_bytes = packet->telemetry_bytes;
            r->new_telemetry = 1;
        }
    }
    if (distance & 0x800000) distance -= XN_PSN_MASK + 1;
    if (distance < 0 || (r->early_count && early_at(r, r->expected + (uint64_t)distance))) {
        r->duplicates++;
        if (distance < 0) respond(pair);
        return XN_DROP_DUPLICATE;
    }
    if (packet->size < s->header_bytes) return XN_DROP_MALFORMED;
    size = packet->size - s->header_bytes;
    if (s->write && s->first) {
        announced = (int64_t)xf_load32(at + 12);
        at += 16;
    }
    if (s->immediate) immediate = (uint32_t)xf_load32(at);
    if (distance == 0) {
        if (!accept(pair, s, size, announced, immediate, now)) return XN_DROP_INVALID_REQUEST;
        ack_request = packet->ack_request;
        if (r->early_count || r->gap_since != XN_NEVER) ack_request |= close_gap(pair, now);
        if (r->failed) return XN_DROP_INVALID_REQUEST;
        if (ack_request) respond(pair);
        return XN_ACCEPTED;
    }
    r->out_of_order++;
    {
        xn_early early = {r->expected + (uint64_t)distance, announced, size, immediate, 1, (uint8_t)packet->opcode,
                          (uint8_t)packet->ack_request};
        return open_gap(pair, (uint64_t)distance, &early, now);
    }
}

enum xn_drop xn_on_data(xn_pair *pair, const xn_reading *packet, uint64_t now) {
    enum xn_drop reason = take(pair, packet, now);
    if (pair->nic->config.echo && reason != XN_DROP_QP_ERROR && reason != XN_DROP_MALFORMED)
        send(pair, XN_RESPONSE, pair->config.traffic_class, packet->source_port, packet->ecn == CE);
    return reason;
}

/* ---- what goes back ---- */

static void finish(xf_packet *p, uint32_t head, uint32_t body_bytes, uint32_t icrc) {
    uint8_t *at = p->data + head;
    uint32_t i;
    icrc = xn_crc(icrc, at, body_bytes);
    for (i = 0; i < 4; i++) at[body_bytes + i] = (uint8_t)(icrc >> (8 * i));
    p->length = head + body_bytes + 4;
}

/* The ACK or NAK, made when its turn on the link has come, so that it says all that has arrived by then. */
xf_packet *xn_make_response(xn_pair *pair, uint32_t entropy, uint32_t marked) {
    xn_responder *r = &pair->responder;
    uint32_t shim_bytes = r->telemetry_bytes, head, syndrome = ACK_UNLIMITED, psn = (uint32_t)r->expected - 1, icrc;
    xf_packet *p = packet_new(pair->nic->pool, 14 + 40 + 8 + shim_bytes + 12 + AETH_BYTES + 4);
    r->response_queued = 0;
    if (r->nak_due) {
        syndrome = r->nak_due;
        psn++;
        r->nak_due = 0;
    }
    if (!p) return NULL;
    if (!r->ack_known) {
        r->ack_icrc = xn_head_icrc(&r->flow, ACKNOWLEDGE, AETH_BYTES, 0);
        r->ack_known = 1;
    }
    icrc = r->ack_icrc;
    head = xn_head(&r->flow, p->data, ACKNOWLEDGE, AETH_BYTES, 0, marked, r->telemetry, shim_bytes, NULL);
    if (entropy) icrc ^= xn_set_port(&r->flow, p->data, entropy);
    /* The echo has no hop remaining, so that switches leave it alone. */
    if (shim_bytes) p->data[head - 8 - shim_bytes + 7] = 0;
    xf_store32(p->data + head, psn & XN_PSN_MASK);
    xf_store32(p->data + head + 4, (uint64_t)syndrome << 24 | (r->msn & XN_PSN_MASK));
    finish(p, head, 8, icrc);
    return p;
}

xf_packet *xn_make_cnp(xn_pair *pair) {
    xf_packet *p = packet_new(pair->nic->pool, 14 + 40 + 8 + 12 + CNP_PAYLOAD_BYTES + 4);
    uint32_t head, icrc;
    if (!p) return NULL;
    head = xn_head(&pair->responder.cnp_flow, p->data, CNP, CNP_PAYLOAD_BYTES, 0, 1, NULL, 0, &icrc);
    memset(p->data + head, 0, 4 + CNP_PAYLOAD_BYTES);
    finish(p, head, 4 + CNP_PAYLOAD_BYTES, icrc);
    return p;
}
