/* CRC-32 (IEEE 802.3, reflected), eight bytes at a time, and over a payload that is known beforehand.
 *
 * CRC is linear: the state behind n more bytes is (the state advanced over n zeros) xor (the CRC register of the bytes
 * alone, from 0). Both depend on the payload only, and the first is four look-ups in tables made once per length. */
#include "nic.h"

#define POLYNOMIAL 0xedb88320u
#define PAYLOADS 8

static uint32_t table[8][256];
static uint32_t port_change[2][256]; /* by the port's first and second byte */
static xn_payload *payloads[PAYLOADS];
static xf_mutex once;

static uint32_t register_over(uint32_t c, const uint8_t *p, uint32_t n);

static void make_table(void) {
    uint32_t i, k;
    for (i = 0; i < 256; i++) {
        uint32_t c = i;
        for (k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        table[0][i] = c;
    }
    for (k = 1; k < 8; k++)
        for (i = 0; i < 256; i++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
    for (k = 0; k < 2; k++)
        for (i = 0; i < 256; i++) {
            /* Behind the source port come 6 bytes of UDP and the first 8 of the BTH. */
            uint8_t bytes[2 + 6 + 8] = {0};
            bytes[k] = (uint8_t)i;
            port_change[k][i] = register_over(0, bytes, sizeof bytes);
        }
}

static uint32_t register_over(uint32_t c, const uint8_t *p, uint32_t n) {
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        c = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
            table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    while (n--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
    return c;
}

uint32_t xn_crc(uint32_t state, const uint8_t *data, uint32_t count) {
    return ~register_over(~state, data, count);
}

uint32_t xn_crc_payload(uint32_t state, const xn_payload *p) {
    uint32_t c = ~state;
    return ~(p->advance[0][c & 255] ^ p->advance[1][c >> 8 & 255] ^ p->advance[2][c >> 16 & 255] ^
             p->advance[3][c >> 24] ^ p->crc);
}

uint32_t xn_crc_port(uint32_t bits) { return port_change[0][bits >> 8 & 255] ^ port_change[1][bits & 255]; }

static xn_payload *make_payload(uint32_t mtu) {
    xn_payload *p = calloc(1, sizeof *p + mtu);
    uint32_t bit, i, k, of_bit[32];
    if (!p) return NULL;
    /* `data` is still zeros: what each bit of the register becomes behind them. */
    for (bit = 0; bit < 32; bit++) of_bit[bit] = register_over(1u << bit, p->data, mtu);
    for (k = 0; k < 4; k++)
        for (i = 0; i < 256; i++)
            for (bit = 0; bit < 8; bit++)
                if (i >> bit & 1) p->advance[k][i] ^= of_bit[8 * k + bit];
    for (i = 0; i < mtu; i++) p->data[i] = (uint8_t)i;
    p->crc = register_over(0, p->data, mtu);
    p->bytes = mtu;
    return p;
}

/* The payload of every packet of that size; shared and never freed. NULL without memory. */
const xn_payload *xn_payload_of(uint32_t mtu) {
    const xn_payload *found = NULL;
    uint32_t i;
    pthread_mutex_lock(&once);
    if (!table[0][1]) make_table();
    for (i = 0; i < PAYLOADS && !found; i++) {
        if (!payloads[i]) payloads[i] = make_payload(mtu);
        if (!payloads[i]) break;
        if (payloads[i]->bytes == mtu) found = payloads[i];
    }
    pthread_mutex_unlock(&once);
    return found;
}
