/* Frames from a template: what scapy built once, patched for every packet (template.py, icrc.py). */
#include "nic.h"

#define ETHERNET_BYTES 14u
#define UDP_BYTES 8u
#define BTH_BYTES 12u
#define ICRC_BYTES 4u
#define INT_UDP_PORT 64791u
#define BECN 0x40u

void xn_flow_init(xn_flow *flow, const xn_config *config, const xn_pair_config *pair, uint32_t dscp, uint32_t ecn) {
    uint32_t udp, tos = dscp << 2 | ecn;
    memset(flow, 0, sizeof *flow);
    flow->network_bytes = config->ipv6 ? 40 : 20;
    udp = ETHERNET_BYTES + flow->network_bytes;
    memcpy(flow->frame, config->prototype, udp + UDP_BYTES);
    if (config->ipv6) {
        flow->frame[14] = (uint8_t)(0x60 | tos >> 4);
        flow->frame[15] = (uint8_t)(tos << 4 | (flow->frame[15] & 0x0f));
        memcpy(flow->frame + 38, pair->remote_ip, 16);
    } else {
        flow->frame[15] = (uint8_t)tos;
        memcpy(flow->frame + 30, pair->remote_ip, 4);
    }
    xf_store16(flow->frame + udp, pair->source_port);
    flow->bth_flags = config->prototype[udp + UDP_BYTES + 1] & 0xcf;
    memcpy(flow->pkey, config->prototype + udp + UDP_BYTES + 2, 2);
    flow->remote_qpn = pair->remote_qpn;
}

/* Ethernet, IP and UDP for a packet of so many bytes from its UDP header on. */
static void prefix(const xn_flow *flow, uint8_t *out, uint32_t udp_bytes) {
    uint32_t udp = ETHERNET_BYTES + flow->network_bytes, sum = 0, i;
    memcpy(out, flow->frame, udp + UDP_BYTES);
    xf_store16(out + udp + 4, udp_bytes);
    if (flow->network_bytes == 40) {
        xf_store16(out + 18, udp_bytes);
        return;
    }
    xf_store16(out + 16, 20 + udp_bytes);
    out[24] = out[25] = 0;
    for (i = 14; i < 34; i += 2) sum += (uint32_t)xf_load16(out + i);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    xf_store16(out + 24, ~sum & 0xffff);
}

/* CRC over what does not change on the way, up to the BTH: `frame` as `prefix` wrote it. */
static uint32_t prefix_crc(const xn_flow *flow, const uint8_t *frame) {
    uint8_t masked[8 + 40 + 8];
    uint32_t bytes = flow->network_bytes + UDP_BYTES;
    memset(masked, 0xff, 8);
    memcpy(masked + 8, frame + ETHERNET_BYTES, bytes);
    if (flow->network_bytes == 40) {
        masked[8] = 0x6f;
        masked[9] = masked[10] = masked[11] = masked[15] = 0xff;
    } else {
        masked[9] = masked[16] = masked[18] = masked[19] = 0xff;
    }
    masked[8 + bytes - 1] = masked[8 + bytes - 2] = 0xff;
    return xn_crc(0, masked, 8 + bytes);
}

static void bth(const xn_flow *flow, uint8_t *out, uint32_t opcode, uint32_t pad, uint32_t variant) {
    out[0] = (uint8_t)opcode;
    out[1] = (uint8_t)(flow->bth_flags | pad << 4);
    out[2] = flow->pkey[0];
    out[3] = flow->pkey[1];
    xf_store32(out + 4, (uint64_t)variant << 24 | flow->remote_qpn);
}

uint32_t xn_head_icrc(const xn_flow *flow, uint32_t opcode, uint32_t after_bth, uint32_t pad) {
    uint8_t frame[14 + 40 + 8], start[8];
    prefix(flow, frame, UDP_BYTES + BTH_BYTES + after_bth + ICRC_BYTES);
    bth(flow, start, opcode, pad, 0xff);
    return xn_crc(prefix_crc(flow, frame), start, 8);
}

uint32_t xn_set_port(const xn_flow *flow, uint8_t *head, uint32_t port) {
    uint8_t *at = head + ETHERNET_BYTES + flow->network_bytes;
    uint32_t bits = port ^ (uint32_t)xf_load16(at);
    xf_store16(at, port);
    return xn_crc_port(bits);
}

uint32_t xn_head(const xn_flow *flow, uint8_t *out, uint32_t opcode, uint32_t after_bth, uint32_t pad, uint32_t becn,
                 const uint8_t *shim, uint32_t shim_bytes, uint32_t *icrc) {
    uint32_t udp = ETHERNET_BYTES + flow->network_bytes;
    if (icrc) *icrc = xn_head_icrc(flow, opcode, after_bth, pad);
    prefix(flow, out, UDP_BYTES + shim_bytes + BTH_BYTES + after_bth + ICRC_BYTES);
    if (shim_bytes) {
        xf_store16(out + udp + 2, INT_UDP_PORT);
        memcpy(out + udp + UDP_BYTES, shim, shim_bytes);
    }
    bth(flow, out + udp + UDP_BYTES + shim_bytes, opcode, pad, becn ? BECN : 0);
    return udp + UDP_BYTES + shim_bytes + 8;
}
