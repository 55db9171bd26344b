/* A received frame taken apart: which packet it is, or why it is not one (parse.py, telemetry.py). */
#include "nic.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define PROTOCOL_UDP 17
#define ROCE_PORT 4791
#define INT_UDP_PORT 64791
#define LEAST_UDP_BYTES 24u
#define SHIM_BYTES 4u
#define MD_BYTES 12u
#define INSTRUCTIONS 0x9400
#define DS_INSTRUCTIONS 0xc000
#define HOP_WORDS 7u

/* Bytes of shim, header and stack; 0 when they are not INT-MD over RoCE or cut short. */
static uint32_t telemetry_length(const uint8_t *data, uint32_t length) {
    uint32_t words;
    if (length < SHIM_BYTES + MD_BYTES) return 0;
    words = data[1];
    if (data[0] >> 2 != 5 || xf_load16(data + 2) != ROCE_PORT || data[4] >> 4 != 2) return 0;
    if (words < MD_BYTES / 4 || SHIM_BYTES + 4 * words > length) return 0;
    return SHIM_BYTES + 4 * words;
}

uint32_t xn_hops(const uint8_t *data, uint32_t length, xn_hop *out) {
    uint32_t words = data[1], bytes = 4 * words - MD_BYTES, count = bytes / (4 * HOP_WORDS), i;
    if (xf_load16(data + 8) != INSTRUCTIONS || xf_load16(data + 12) != DS_INSTRUCTIONS ||
        (data[6] & 0x1f) != HOP_WORDS)
        return 0;
    if (bytes % (4 * HOP_WORDS) || length < SHIM_BYTES + 4 * words) return 0;
    for (i = 0; i < count; i++) {
        const uint8_t *p = data + SHIM_BYTES + MD_BYTES + (count - 1 - i) * 4 * HOP_WORDS;
        out[i].node_id = (uint32_t)xf_load32(p);
        out[i].queue_bytes = (uint32_t)xf_load32(p + 4) & 0xffffff;
        out[i].timestamp_ns = xf_load64(p + 8);
        out[i].tx_bytes = xf_load64(p + 16);
        out[i].rate_bps = xf_load32(p + 24) * 1000;
    }
    return count;
}

/* Whether these bytes are the known payload: by the packet's stamp, or by looking. */
static int is_payload(const xf_packet *p, const uint8_t *at, const xn_payload *payload) {
    if (p->stamp == payload->data && p->stamp_at == at && p->stamp_bytes == payload->bytes) return 1;
    return !memcmp(at, payload->data, payload->bytes);
}

/* Whether the ICRC behind `count` bytes from the BTH on is right; `masked` holds IP and UDP behind eight ones. */
static int icrc_good(const xn_nic *nic, const xf_packet *p, uint8_t *masked, uint32_t masked_bytes,
                     const uint8_t *bth, uint32_t count, uint32_t size) {
    const xn_payload *payload = nic->payload;
    uint32_t state, head = 12, opcode = bth[0];
    uint8_t start[12];
    memcpy(start, bth, 12);
    start[4] = 0xff;
    state = xn_crc(xn_crc(0, masked, masked_bytes), start, 12);
    if (opcode <= 0x0b) head += size > payload->bytes ? size - payload->bytes : 0;
    if (count - head == payload->bytes && is_payload(p, bth + head, payload))
        state = xn_crc_payload(xn_crc(state, bth + 12, head - 12), payload);
    else
        state = xn_crc(state, bth + 12, count - 12);
    bth += count;
    return state == ((uint32_t)bth[0] | (uint32_t)bth[1] << 8 | (uint32_t)bth[2] << 16 | (uint32_t)bth[3] << 24);
}

static enum xn_drop read_udp(const xn_nic *nic, const xf_packet *p, uint32_t length, uint32_t network,
                             uint32_t udp_bytes, xn_reading *out) {
    const uint8_t *frame = p->data;
    uint32_t udp = 14 + network, port = (uint32_t)xf_load16(frame + udp + 2), extra = 0, pad, flags, bytes;
    const uint8_t *bth;
    uint8_t masked[8 + 40 + 8];
    out->telemetry = NULL;
    out->telemetry_bytes = 0;
    if (port != ROCE_PORT) {
        if (port != INT_UDP_PORT) return XN_NOT_ROCE;
        if (length < udp + 8) return XN_DROP_MALFORMED;
        extra = telemetry_length(frame + udp + 8, length - udp - 8);
        if (!extra || udp_bytes < LEAST_UDP_BYTES + extra) return XN_DROP_MALFORMED;
        out->telemetry = frame + udp + 8;
        out->telemetry_bytes = extra;
        udp_bytes -= extra;
    }
    bth = frame + udp + 8 + extra;
    flags = bth[1];
    pad = flags >> 4 & 3;
    if ((flags & 0x0f) || udp_bytes < LEAST_UDP_BYTES + pad) return XN_DROP_MALFORMED;
    out->size = udp_bytes - LEAST_UDP_BYTES - pad;
    bytes = network + 8;
    memset(masked, 0xff, 8);
    memcpy(masked + 8, frame + 14, bytes);
    if (network == 20) {
        xf_store16(masked + 10, udp_bytes + 20);
        masked[9] = masked[16] = masked[18] = masked[19] = 0xff;
    } else {
        xf_store16(masked + 12, udp_bytes);
        masked[8] = 0x6f;
        masked[9] = masked[10] = masked[11] = masked[15] = 0xff;
    }
    xf_store16(masked + 8 + network + 2, ROCE_PORT);
    xf_store16(masked + 8 + network + 4, udp_bytes);
    masked[8 + bytes - 1] = masked[8 + bytes - 2] = 0xff;
    if (!icrc_good(nic, p, masked, 8 + bytes, bth, udp_bytes - 12, out->size)) return XN_DROP_ICRC;
    out->source_port = (uint32_t)xf_load16(frame + udp);
    out->becn = bth[4] >> 6 & 1;
    out->opcode = bth[0];
    out->dqpn = (uint32_t)xf_load32(bth + 4) & 0xffffff;
    out->ack_request = bth[8] >> 7;
    out->psn = (uint32_t)xf_load32(bth + 8) & 0xffffff;
    out->body = bth + 12;
    return XN_ACCEPTED;
}

static enum xn_drop read_ipv6(const xn_nic *nic, const xf_packet *p, xn_reading *out) {
    const uint8_t *frame = p->data;
    uint32_t payload, length = p->length;
    if (length < 78) return XN_DROP_MALFORMED;
    payload = (uint32_t)xf_load16(frame + 18);
    if (frame[14] >> 4 != 6 || payload > length - 54) return XN_DROP_MALFORMED;
    if (frame[20] != PROTOCOL_UDP) return XN_NOT_ROCE;
    if (!nic->config.ipv6 || memcmp(frame + 38, nic->config.ip, 16)) return XN_DROP_NOT_FOR_US;
    if (xf_load16(frame + 58) != payload) return XN_DROP_MALFORMED;
    out->source_ip = frame + 22;
    out->ecn = frame[15] >> 4 & 3;
    return read_udp(nic, p, 54 + payload, 40, payload, out);
}

enum xn_drop xn_read(const xn_nic *nic, const xf_packet *p, xn_reading *out) {
    const uint8_t *frame = p->data;
    uint32_t length = p->length, total, sum = 0, i;
    if (length < 58) return XN_DROP_MALFORMED;
    if (xf_load16(frame + 12) != ETHERTYPE_IPV4)
        return xf_load16(frame + 12) == ETHERTYPE_IPV6 ? read_ipv6(nic, p, out) : XN_NOT_ROCE;
    total = (uint32_t)xf_load16(frame + 16);
    if (frame[14] != 0x45 || (xf_load16(frame + 20) & 0x3fff) || total > length - 14) return XN_DROP_MALFORMED;
    for (i = 14; i < 34; i += 2) sum += (uint32_t)xf_load16(frame + i);
    if (sum % 0xffff) return XN_DROP_IP_CHECKSUM;
    if (frame[23] != PROTOCOL_UDP) return XN_NOT_ROCE;
    if (nic->config.ipv6 || memcmp(frame + 30, nic->config.ip, 4)) return XN_DROP_NOT_FOR_US;
    if (xf_load16(frame + 38) + 20 != total) return XN_DROP_MALFORMED;
    out->source_ip = frame + 26;
    out->ecn = frame[15] & 3;
    return read_udp(nic, p, 14 + total, 20, total - 20, out);
}

uint32_t xn_class_of(const uint8_t *frame, uint32_t length) {
    if (length < 16) return 0;
    if (xf_load16(frame + 12) == ETHERTYPE_IPV4) return frame[15] >> 5;
    if (xf_load16(frame + 12) == ETHERTYPE_IPV6) return frame[14] >> 1 & 7;
    return 0;
}
