/* CRCs whose parameters are set while the program runs: `crc16_custom` and `crc32_custom` of v1model, by the model of
 * R. Williams ("A painless guide to CRC error detection algorithms", 1993): polynomial, initial value, whether bytes go
 * in and the remainder comes out reflected, and what is added at the end. They begin as CRC-16/ARC and CRC-32. */
#include "engine.h"

static uint32_t reflected(uint32_t value, uint32_t bits) {
    uint32_t out = 0, i;
    for (i = 0; i < bits; i++) out |= (value >> i & 1) << (bits - 1 - i);
    return out;
}

static void set(xf_crc *c, uint32_t width, const uint64_t *parameters) {
    uint32_t top = 1u << (width - 1), i, k;
    c->width = width;
    c->initial = (uint32_t)parameters[1];
    c->final = (uint32_t)parameters[2];
    c->reflect_in = parameters[3] != 0;
    c->reflect_out = parameters[4] != 0;
    for (i = 0; i < 256; i++) {
        uint32_t r = i << (width - 8);
        for (k = 0; k < 8; k++) r = r & top ? r << 1 ^ (uint32_t)parameters[0] : r << 1;
        c->table[i] = r;
    }
}

int crcs_init(xf_engine *e) {
    static const uint64_t arc[] = {0x8005, 0, 0, 1, 1}, ieee[] = {0x04c11db7, 0xffffffff, 0xffffffff, 1, 1};
    const xf_program *p = e->program;
    uint32_t i;
    e->crcs = calloc(p->calculation_count + 1ul, sizeof *e->crcs);
    if (!e->crcs) return XF_ENOMEM;
    for (i = 0; i < p->calculation_count; i++)
        if (p->custom_crcs[i]) set(&e->crcs[i], p->custom_crcs[i], p->custom_crcs[i] == 16 ? arc : ieee);
    return 0;
}

int crcs_op(xf_engine *e, const xf_op *o) {
    const xf_program *p = e->program;
    if (!p || o->object >= p->calculation_count || !p->custom_crcs[o->object]) return XF_EINVAL;
    set(&e->crcs[o->object], p->custom_crcs[o->object], o->words);
    return 0;
}

uint32_t xf_crc_custom(const xf_ctx *x, uint32_t calculation, const uint8_t *data, uint32_t length) {
    const xf_crc *c = &x->engine->crcs[calculation];
    uint32_t r = c->initial, mask = UINT32_MAX >> (32 - c->width);
    while (length--) {
        uint32_t byte = c->reflect_in ? reflected(*data++, 8) : *data++;
        r = c->table[(r >> (c->width - 8) ^ byte) & 0xff] ^ r << 8;
    }
    r &= mask;
    return ((c->reflect_out ? reflected(r, c->width) : r) ^ c->final) & mask;
}
