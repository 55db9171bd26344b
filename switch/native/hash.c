/* Hash algorithms of v1model's HashAlgorithm, with the parameters that BMv2 gives them. */
#include "engine.h"
#include "hash.h"

static uint16_t table16[256], table_ccitt[256];
static uint32_t table32[256];

/* The reflected tables process the low bit first, which for reflected CRCs is the bytes' own order. */
void hash_init(void) {
    uint32_t i, k;
    for (i = 0; i < 256; i++) {
        uint32_t a = i, b = i, c = i << 8;
        for (k = 0; k < 8; k++) {
            a = a & 1 ? a >> 1 ^ 0xa001u : a >> 1;
            b = b & 1 ? b >> 1 ^ 0xedb88320u : b >> 1;
            c = c & 0x8000 ? c << 1 ^ 0x1021u : c << 1;
        }
        table16[i] = (uint16_t)a;
        table32[i] = b;
        table_ccitt[i] = (uint16_t)c;
    }
}

/* CRC-16/ARC: polynomial 0x8005 reflected, initial value 0. */
uint16_t xf_crc16(const uint8_t *data, uint32_t length) {
    uint16_t crc = 0;
    while (length--) crc = (uint16_t)(crc >> 8 ^ table16[(crc ^ *data++) & 0xff]);
    return crc;
}

/* CRC-32 of IEEE 802.3. */
uint32_t xf_crc32(const uint8_t *data, uint32_t length) {
    uint32_t crc = UINT32_MAX;
    while (length--) crc = crc >> 8 ^ table32[(crc ^ *data++) & 0xff];
    return ~crc;
}

/* CRC-16/CCITT-FALSE: polynomial 0x1021, initial value 0xffff. */
uint16_t xf_crc_ccitt(const uint8_t *data, uint32_t length) {
    uint16_t crc = 0xffff;
    while (length--) crc = (uint16_t)(crc << 8 ^ table_ccitt[(crc >> 8 ^ *data++) & 0xff]);
    return crc;
}

/* Internet checksum (RFC 1071); an odd last byte is padded with zero. */
uint16_t xf_csum16(const uint8_t *data, uint32_t length) {
    uint64_t sum = 0;
    for (; length >= 4; length -= 4, data += 4) sum += xf_load32(data);
    if (length >= 2) {
        sum += xf_load16(data);
        length -= 2;
        data += 2;
    }
    if (length) sum += (uint64_t)data[0] << 8;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

uint16_t xf_xor16(const uint8_t *data, uint32_t length) {
    uint16_t x = 0;
    for (; length >= 2; length -= 2, data += 2) x ^= (uint16_t)xf_load16(data);
    if (length) x ^= (uint16_t)(data[0] << 8);
    return x;
}

/* The first eight bytes, as a number. */
uint64_t xf_identity(const uint8_t *data, uint32_t length) {
    uint64_t v = 0;
    uint32_t i;
    for (i = 0; i < length && i < 8; i++) v = v << 8 | data[i];
    return v;
}
