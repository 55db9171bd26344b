/* Two NICs in C whose frames pass through hostile hands: lost, doubled, reordered, cut, changed with or without repaired
 * checksums, beside frames made up from nothing, PFC, posts, stops and time.
 *
 * The input's first byte chooses one of the pairs of configurations that build.py has written (`setups`). The reading
 * end of every frame is a block of its own. It is linked with the engine's sources and the NIC's. */
#include "fuzz.h"
#include "nic.h"

void abort(void);

typedef struct setup {
    const void *config[2], *pair[2];
} setup;
extern const setup setups[];
extern const uint32_t setup_count;

#define BAG 64
#define STEPS 300
#define ROOM 9000

static struct frame {
    uint8_t *data;
    uint32_t length, to;
} bag[BAG];
static uint32_t bag_count;
static xn_nic *nics[2];
static xn_group *group;

static void told(const xn_message *message) {
    xn_event events[64];
    if (message->nic > 1 || message->notice > XN_EVENTS_FULL) abort();
    while (xn_events_take(group, events, 64)) {}
}

static void keep(uint32_t to, const uint8_t *data, uint32_t length) {
    struct frame *f;
    if (bag_count == BAG) { /* the oldest is lost */
        free(bag[0].data);
        memmove(bag, bag + 1, (BAG - 1) * sizeof *bag);
        bag_count--;
    }
    f = &bag[bag_count++];
    f->data = malloc(length ? length : 1);
    memcpy(f->data, data, length);
    f->length = length;
    f->to = to;
}

/* Makes checksum and ICRC what the rest of the frame asks for, if it looks like RoCE over IP at all. */
static void seal(uint8_t *frame, uint32_t length, uint32_t fix_lengths) {
    uint8_t masked[8 + 40 + 8];
    uint32_t network, udp, total, extra = 0, sum = 0, i, crc;
    if (length < 58) return;
    network = xf_load16(frame + 12) == 0x86dd ? 40 : 20;
    udp = 14 + network;
    if (length < udp + 24) return;
    if (fix_lengths) {
        xf_store16(frame + udp + 4, length - udp);
        xf_store16(frame + (network == 40 ? 18 : 16), network == 40 ? length - udp : length - 14);
    }
    total = (uint32_t)xf_load16(frame + udp + 4);
    if (network == 20) {
        frame[24] = frame[25] = 0;
        for (i = 14; i < 34; i += 2) sum += (uint32_t)xf_load16(frame + i);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        xf_store16(frame + 24, ~sum & 0xffff);
    }
    if (xf_load16(frame + udp + 2) == 64791 && length >= udp + 12) extra = 4 + 4u * frame[udp + 9];
    if (total < 24 + extra || udp + total > length) return;
    total -= extra;
    memset(masked, 0xff, 8);
    memcpy(masked + 8, frame + 14, network + 8);
    if (network == 20) {
        xf_store16(masked + 10, total + 20);
        masked[9] = masked[16] = masked[18] = masked[19] = 0xff;
    } else {
        xf_store16(masked + 12, total);
        masked[8] = 0x6f;
        masked[9] = masked[10] = masked[11] = masked[15] = 0xff;
    }
    xf_store16(masked + 8 + network + 2, 4791);
    xf_store16(masked + 8 + network + 4, total);
    masked[8 + network + 7] = masked[8 + network + 6] = 0xff;
    crc = xn_crc(0, masked, 16 + network);
    {
        uint8_t *bth = frame + udp + 8 + extra, reserved = bth[4];
        uint32_t bytes = total - 12;
        bth[4] = 0xff;
        crc = xn_crc(crc, bth, bytes);
        bth[4] = reserved;
        for (i = 0; i < 4; i++) bth[bytes + i] = (uint8_t)(crc >> (8 * i));
    }
}

static uint64_t due(void) {
    uint64_t a = xn_deadline(nics[0]), b = xn_deadline(nics[1]);
    return a < b ? a : b;
}

static uint64_t advance(uint64_t now, uint64_t until, int deliver) {
    xf_frame out[8];
    uint32_t step, side;
    int n, i;
    for (step = 0; step < STEPS && due() <= until; step++) {
        if (due() > now) now = due();
        for (side = 0; side < 2; side++)
            do {
                n = xn_poll(nics[side], now, out, 8);
                for (i = 0; i < n; i++) {
                    if (out[i].length > XF_MAX_FRAME) abort();
                    keep(!side, out[i].data, out[i].length);
                    if (deliver) {
                        struct frame f = bag[--bag_count];
                        xn_rx(nics[f.to], f.data, f.length, now);
                        free(f.data);
                    }
                }
            } while (n == 8);
    }
    return step < STEPS ? until : now;
}

static void change(struct frame *f, input *in) {
    uint32_t count = (uint32_t)take(in, 1) % 8, length;
    while (count--) {
        uint32_t at = (uint32_t)take(in, 1);
        if (at & 128) at = (uint32_t)take(in, 1) | (at & 127) << 8;
        if (at < f->length) f->data[at] ^= (uint8_t)take(in, 1);
    }
    count = (uint32_t)take(in, 1);
    length = f->length;
    if (count & 1) length = (uint32_t)take(in, 1);
    if (count & 2) length = f->length + (uint32_t)take(in, 1);
    if (length > ROOM) length = ROOM;
    if (length != f->length) {
        uint8_t *data = calloc(1, length ? length : 1);
        memcpy(data, f->data, length < f->length ? length : f->length);
        free(f->data);
        f->data = data;
        f->length = length;
    }
    if (count & 4) seal(f->data, f->length, count & 8);
}

/* Telemetry pushed behind UDP as a switch does. */
static void push(struct frame *f, input *in) {
    uint32_t udp = f->length > 60 && xf_load16(f->data + 12) == 0x86dd ? 54 : 34, words = (uint32_t)take(in, 1), bytes = 4 * words, i;
    uint8_t *data;
    if (f->length < udp + 24 || f->length + bytes > ROOM) return;
    data = malloc(f->length + bytes);
    memcpy(data, f->data, udp + 8);
    if (xf_load16(f->data + udp + 2) == 64791 && f->length > udp + 24) {
        memcpy(data + udp + 8, f->data + udp + 8, 16);
        for (i = 0; i < bytes; i++) data[udp + 24 + i] = (uint8_t)take(in, 1);
        memcpy(data + udp + 24 + bytes, f->data + udp + 24, f->length - udp - 24);
        data[udp + 9] = (uint8_t)(data[udp + 9] + words);
    } else {
        for (i = 0; i < bytes; i++) data[udp + 8 + i] = (uint8_t)take(in, 1);
        memcpy(data + udp + 8 + bytes, f->data + udp + 8, f->length - udp - 8);
        if (words) {
            data[udp + 8] = 5 << 2;
            data[udp + 9] = (uint8_t)(words - 1);
            xf_store16(data + udp + 2, 64791);
            if (words > 1) {
                xf_store16(data + udp + 10, 4791);
                data[udp + 12] = 0x20;
            }
        }
    }
    free(f->data);
    f->data = data;
    f->length += bytes;
    seal(f->data, f->length, 1);
}

static void read_all(xn_nic *nic, uint64_t now) {
    static xn_stats stats;
    static xn_message messages[16];
    xn_pair_stats pair;
    uint8_t shim[XN_MAX_SHIM];
    xn_stats_read(nic, now, &stats);
    xn_pair_read(nic, 0x11, &pair);
    xn_pair_read(nic, 0x12, &pair);
    xn_telemetry(nic, 0x11, (int)(now & 1), shim);
    xn_outstanding(nic, 0x11, messages, 16);
    xn_rate(nic, 0x11, now);
}

static uint64_t command(input *in, uint64_t now) {
    uint32_t op = (uint32_t)take(in, 1) % 24, side, i;
    uint8_t made[256];
    struct frame f;
    switch (op) {
    case 0:
    case 1:
        side = (uint32_t)take(in, 1);
        xn_post(nics[side & 1], side & 2 ? 0x12 : 0x11, side, take(in, (side >> 2) & 3), now, side >> 4 & 1);
        break;
    case 2:
    case 3: return advance(now, now + take(in, 1) * 100, 0);
    case 4:
    case 5: return advance(now, now + take(in, 2) * 10, 1);
    case 6: return advance(now, now + take(in, 4), 1);
    case 7:
    case 8:
    case 9: /* one of those on their way arrives */
        if (!bag_count) break;
        i = (uint32_t)take(in, 1) % bag_count;
        f = bag[i];
        memmove(bag + i, bag + i + 1, (--bag_count - i) * sizeof *bag);
        xn_rx(nics[f.to], f.data, f.length, now);
        free(f.data);
        break;
    case 10: /* twice */
        if (!bag_count) break;
        f = bag[take(in, 1) % bag_count];
        xn_rx(nics[f.to], f.data, f.length, now);
        break;
    case 11: /* back to who sent it */
        if (!bag_count) break;
        f = bag[take(in, 1) % bag_count];
        xn_rx(nics[!f.to], f.data, f.length, now);
        break;
    case 12:
    case 13:
    case 14:
    case 15:
        if (bag_count) change(&bag[take(in, 1) % bag_count], in);
        break;
    case 16:
        if (bag_count) push(&bag[take(in, 1) % bag_count], in);
        break;
    case 17: { /* from nothing */
        uint32_t length = (uint32_t)take(in, 1);
        side = (uint32_t)take(in, 1);
        for (i = 0; i < length; i++) made[i] = (uint8_t)take(in, 1);
        if (side & 2) seal(made, length, side & 4);
        {
            uint8_t *exact = malloc(length ? length : 1);
            memcpy(exact, made, length);
            xn_rx(nics[side & 1], exact, length, now);
            free(exact);
        }
        break;
    }
    case 18:
    case 19: /* PFC */
        memset(made, 0, sizeof made);
        memcpy(made, "\x01\x80\xc2\x00\x00\x01", 6);
        xf_store16(made + 12, 0x8808);
        xf_store16(made + 14, 0x0101);
        side = (uint32_t)take(in, 1);
        made[17] = (uint8_t)take(in, 1);
        for (i = 0; i < 8; i++)
            if (made[17] >> i & 1) xf_store16(made + 18 + 2 * i, take(in, 2));
        xn_rx(nics[side & 1], made, side & 2 ? 60 : (uint32_t)take(in, 1) % 64, now);
        break;
    case 20:
        side = (uint32_t)take(in, 1);
        if (side & 2) xn_set_rate(nics[side & 1], 1000000 + take(in, 5), now);
        else xn_storm(nics[side & 1], side >> 2 & 7, 1 + (uint32_t)take(in, 2) % 65535, now + take(in, 3), now);
        break;
    case 21:
        side = (uint32_t)take(in, 1);
        if (side & 2) xn_catch_up(nics[side & 1], now > 1000 ? now - 1000 : 0);
        else if (side & 4) xn_stop(nics[side & 1], now);
        break;
    case 22: read_all(nics[take(in, 1) & 1], now); break;
    case 23: /* congestion experienced */
        if (!bag_count) break;
        i = (uint32_t)take(in, 1) % bag_count;
        if (bag[i].length > 60) {
            if (xf_load16(bag[i].data + 12) == 0x86dd) bag[i].data[15] |= 0x30;
            else bag[i].data[15] |= 3;
            seal(bag[i].data, bag[i].length, 0);
        }
        break;
    }
    return now;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    const setup *chosen;
    uint32_t side;
    uint64_t now = 1000;
    if (!size) return 0;
    chosen = &setups[take(&in, 1) % setup_count];
    group = xn_group_new(told);
    for (side = 0; side < 2; side++) {
        xn_config config;
        xn_pair_config pair;
        memcpy(&config, chosen->config[side], sizeof config);
        memcpy(&pair, chosen->pair[side], sizeof pair);
        nics[side] = xn_new(group, &config);
        if (!nics[side] || xn_add_pair(nics[side], &pair)) abort();
        pair.qpn++;
        pair.remote_qpn++;
        pair.traffic_class = 5;
        if (xn_add_pair(nics[side], &pair)) abort();
    }
    while (in.at < in.end) now = command(&in, now);
    now = advance(now, now + 1000000000ul, 1);
    for (side = 0; side < 2; side++) {
        read_all(nics[side], now);
        xn_free(nics[side]);
    }
    while (bag_count) free(bag[--bag_count].data);
    xn_group_free(group);
    return 0;
}
