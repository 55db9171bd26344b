/* What a generated pipeline sees of the engine: the packet's context, tables and state, and small inline helpers.
 *
 * A generated program is one translation unit that includes this file and exports `const xf_program *xf_program_get`.
 * It works on its own packet header vector (PHV), a struct whose size it states. All values are unsigned 64-bit words;
 * wider ones are arrays of words ("limbs"), least significant first, two's complement where signed. */
#ifndef XF_PIPELINE_H
#define XF_PIPELINE_H

#include "xf.h"

#define XF_NO_PROFILE 0xffffffffu
#define XF_OFFSET(type, member) ((size_t)&((type *)0)->member)
#define XF_LOOP_BUDGET (1u << 18) /* jumps back in the actions of one pass; then the pass ends and is counted */

/* Instance types, as v1model defines them. */
enum { XF_NORMAL = 0, XF_CLONE_I2E = 1, XF_CLONE_E2E = 2, XF_RECIRCULATED = 4, XF_REPLICATED = 5, XF_RESUBMITTED = 6 };

#define XF_CLONE_ASKED 0x80000000u /* in xf_ctx.clone_session: a clone was asked for */

/* ---- what the generator states about a program ---- */

typedef struct xf_range_desc {
    uint16_t word, limbs; /* where the field lies in the key; its operands are lo limbs, then hi limbs */
} xf_range_desc;

typedef struct xf_table_desc {
    const char *name;
    uint32_t key_words;
    uint32_t arg_words; /* of its widest action */
    uint32_t size;
    uint32_t range_count, range_words; /* range_words: lo and hi limbs of all ranges */
    const xf_range_desc *ranges;
    uint32_t profile;        /* XF_NO_PROFILE for a direct table */
    uint32_t default_action; /* XF_NO_ACTION: none */
    uint8_t default_const, entries_const, with_counters, with_timeout, with_meter, meter_bytes;
    const uint64_t *default_args;
    uint32_t default_words;
} xf_table_desc;

typedef struct xf_entry_init {
    uint32_t table, rank, action;
    const uint64_t *key, *mask, *ranges, *args;
} xf_entry_init;

typedef struct xf_array_desc {
    const char *name;
    uint32_t size;
    uint32_t limbs; /* words of a register cell */
    uint8_t bytes;  /* meters: bytes rather than packets */
    /* Counters and registers of one size are interleaved: cells lie `stride` (counters, or words of registers) apart,
     * `offset` behind those of the array `first`, which owns the memory. */
    uint32_t first, offset, stride;
} xf_array_desc;

typedef struct xf_profile_desc {
    const char *name;
    uint32_t size, arg_words;
} xf_profile_desc;

typedef struct xf_ctx xf_ctx;

typedef struct xf_program {
    uint32_t abi;
    uint32_t phv_size;
    uint64_t source;        /* hash of the C it was built from */
    const size_t *layout;   /* XF_LAYOUT, then sizes and offsets in its PHV: what two builds must agree on */
    uint32_t layout_count;
    uint32_t header_bytes; /* most that the deparser can put in front of a payload */
    uint32_t digest_words; /* widest digest list */
    uint32_t table_count, entry_count, counter_count, register_count, meter_count, profile_count, value_set_count;
    uint32_t calculation_count;
    int32_t pause_register; /* index, or -1 */
    uint32_t takes_refused; /* what the traffic manager refuses passes egress, see refused_pass */
    const xf_table_desc *tables;
    const xf_entry_init *entries;
    const xf_array_desc *counters, *registers, *meters, *value_sets;
    const xf_profile_desc *profiles;
    const uint8_t *custom_crcs; /* of each calculation: the width of its custom CRC, 0 if it has none */
    /* Parser, checksum verification and ingress on a fresh packet. */
    void (*ingress)(xf_ctx *x, void *phv);
    /* Parser alone, for ingress clones; the PHV is fresh. */
    void (*parse)(xf_ctx *x, void *phv);
    void (*egress)(xf_ctx *x, void *phv);
    /* Checksum updates, then headers written so that they end at `payload`; returns their length. */
    uint32_t (*deparse)(xf_ctx *x, void *phv, uint8_t *payload);
    void (*reset_metadata)(void *phv);
    void (*copy_fields)(uint32_t list, void *to, const void *from);
    void (*set_instance)(void *phv, uint32_t type);
    void (*set_rid)(void *phv, uint32_t rid);
    uint32_t (*get_priority)(const void *phv);
    uint32_t (*digest)(uint32_t list, const void *phv, uint64_t *words);
} xf_program;

/* ---- tables ---- */

typedef struct xf_entry xf_entry;

typedef struct xf_act {
    uint32_t action;
    uint32_t hit;
    const uint64_t *args;
} xf_act;

typedef struct xf_table xf_table;
typedef struct xf_profile xf_profile;
typedef struct xf_meter xf_meter;

typedef struct xf_counter {
    uint64_t packets, bytes;
} xf_counter;

/* ---- the context of one pass through the pipeline ---- */

struct xf_ctx {
    const uint8_t *frame; /* in: the packet's bytes (ingress); the payload (egress, deparser) */
    uint32_t length;      /* in: of `frame` */
    uint32_t parsed;      /* out of the parser: bytes consumed */
    uint64_t now;         /* ns */
    uint64_t ticks;       /* the same in P4 timestamp ticks */
    uint32_t ingress_port, instance_type;
    uint32_t packet_length;  /* the packet length register: follows setValid and setInvalid */
    uint32_t ingress_length; /* what counters and meters count */
    /* egress only */
    uint32_t egress_port, enq_qdepth, deq_qdepth, qid;
    uint64_t enq_ticks, deq_timedelta;
    /* out */
    uint32_t egress_spec, mcast_grp;
    uint32_t clone_session, clone_list;
    uint32_t digest_list, resubmit_list, recirculate_list;
    uint32_t truncate; /* UINT32_MAX = whole */
    uint32_t exit;
    uint32_t budget; /* jumps back that are left */
    uint32_t drop_port;
    uint32_t parser_error;
    uint8_t checksum_error;
    const void *source; /* PHV whose field list is copied into a re-entering packet after its reset, or NULL */
    uint32_t source_list;

    xf_engine *engine;
    xf_table **tables;
    xf_counter **counters;
    const uint32_t *counter_sizes;
    uint64_t **registers;
    const uint32_t *register_sizes;
};

/* What a program and the engine, perhaps by different compilers, must agree on. */
#define XF_LAYOUT                                                                                                      \
    sizeof(xf_ctx), XF_OFFSET(xf_ctx, now), XF_OFFSET(xf_ctx, deq_timedelta), XF_OFFSET(xf_ctx, source),               \
        XF_OFFSET(xf_ctx, register_sizes), sizeof(xf_program), XF_OFFSET(xf_program, digest), sizeof(xf_table_desc),   \
        XF_OFFSET(xf_table_desc, default_args), sizeof(xf_entry_init), sizeof(xf_array_desc), sizeof(xf_profile_desc), \
        sizeof(xf_range_desc), sizeof(xf_act), sizeof(xf_counter)
#define XF_LAYOUT_COUNT 15u

/* ---- calls into the engine ---- */

/* The entry that `key` hits, or NULL. */
xf_entry *xf_lookup(xf_table *table, const uint64_t *key);
/* Counts the hit and executes nothing: fills `act` with what to run. `selector` is the hash for groups. */
void xf_apply(xf_ctx *x, xf_table *table, xf_entry *entry, uint64_t selector, xf_act *act);
/* Both; returns the entry. */
xf_entry *xf_match(xf_ctx *x, xf_table *table, const uint64_t *key, uint64_t selector, xf_act *act);
uint32_t xf_entry_meter(xf_ctx *x, xf_table *table, xf_entry *entry);
uint32_t xf_meter_execute(xf_ctx *x, uint32_t meter, uint64_t index, uint32_t *color); /* 0: index out of bounds */
void xf_out_of_bounds(xf_ctx *x);
void xf_pause_written(xf_ctx *x, uint64_t index, uint64_t value);
int xf_value_set_match(xf_ctx *x, uint32_t set, const uint64_t *key, const uint64_t *mask);
uint64_t xf_random(xf_ctx *x, uint64_t low, uint64_t high);
void xf_log(xf_ctx *x, uint32_t message, const uint64_t *words, uint32_t count);
void xf_assert_failed(xf_ctx *x, uint32_t message);
/* Only traced programs call these; see cgen_trace.py. The handle of no entry is 2^32 - 1. */
uint32_t xf_entry_handle(const xf_entry *entry);
void xf_trace(xf_ctx *x, uint32_t kind, uint64_t a, uint64_t b, uint64_t c, const uint64_t *words, uint32_t count);
void xf_parser_loop(xf_ctx *x); /* a parser or an action was stopped because it looped */

uint16_t xf_csum16(const uint8_t *data, uint32_t length);
uint16_t xf_crc16(const uint8_t *data, uint32_t length);
uint32_t xf_crc32(const uint8_t *data, uint32_t length);
uint32_t xf_crc_custom(const xf_ctx *x, uint32_t calculation, const uint8_t *data, uint32_t length);
uint16_t xf_crc_ccitt(const uint8_t *data, uint32_t length);
uint64_t xf_identity(const uint8_t *data, uint32_t length);
uint16_t xf_xor16(const uint8_t *data, uint32_t length);

/* ---- bits and bytes ---- */

#if defined(__GNUC__) && !defined(__TINYC__)
#define XF_INLINE static inline __attribute__((always_inline, unused))
#define XF_LIKELY(c) __builtin_expect(!!(c), 1)
#define XF_PREFETCH(p) __builtin_prefetch(p)
#define XF_OFFSET(type, member) __builtin_offsetof(type, member)
XF_INLINE uint64_t xf_load16(const uint8_t *p) { uint16_t v; __builtin_memcpy(&v, p, 2); return __builtin_bswap16(v); }
XF_INLINE uint64_t xf_load32(const uint8_t *p) { uint32_t v; __builtin_memcpy(&v, p, 4); return __builtin_bswap32(v); }
XF_INLINE uint64_t xf_load64(const uint8_t *p) { uint64_t v; __builtin_memcpy(&v, p, 8); return __builtin_bswap64(v); }
XF_INLINE void xf_store16(uint8_t *p, uint64_t v) { uint16_t w = __builtin_bswap16((uint16_t)v); __builtin_memcpy(p, &w, 2); }
XF_INLINE void xf_store32(uint8_t *p, uint64_t v) { uint32_t w = __builtin_bswap32((uint32_t)v); __builtin_memcpy(p, &w, 4); }
XF_INLINE void xf_store64(uint8_t *p, uint64_t v) { uint64_t w = __builtin_bswap64(v); __builtin_memcpy(p, &w, 8); }
#else
#define XF_INLINE static inline
#define XF_LIKELY(c) (c)
#define XF_PREFETCH(p) ((void)(p))
#define XF_OFFSET(type, member) ((size_t)&((type *)0)->member)
XF_INLINE uint64_t xf_load16(const uint8_t *p) { return (uint64_t)p[0] << 8 | p[1]; }
XF_INLINE uint64_t xf_load32(const uint8_t *p) {
    return (uint64_t)p[0] << 24 | (uint64_t)p[1] << 16 | (uint64_t)p[2] << 8 | p[3];
}
XF_INLINE uint64_t xf_load64(const uint8_t *p) { return xf_load32(p) << 32 | xf_load32(p + 4); }
XF_INLINE void xf_store16(uint8_t *p, uint64_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
XF_INLINE void xf_store32(uint8_t *p, uint64_t v) { xf_store16(p, v >> 16); xf_store16(p + 2, v); }
XF_INLINE void xf_store64(uint8_t *p, uint64_t v) { xf_store32(p, v >> 32); xf_store32(p + 4, v); }
#endif
XF_INLINE uint64_t xf_load8(const uint8_t *p) { return p[0]; }
XF_INLINE void xf_store8(uint8_t *p, uint64_t v) { p[0] = (uint8_t)v; }

/* `width` bits (1..64) that begin `bit` bits after `p`, most significant first. */
XF_INLINE uint64_t xf_get_bits(const uint8_t *p, uint32_t bit, uint32_t width) {
    uint64_t v = 0;
    uint32_t left = width;
    p += bit >> 3;
    bit &= 7;
    while (left) {
        uint32_t take = 8 - bit;
        if (take > left) take = left;
        v = v << take | (uint64_t)((p[0] >> (8 - bit - take)) & ((1u << take) - 1));
        left -= take;
        bit = 0;
        p++;
    }
    return v;
}
/* The reverse; bits around the field stay. */
XF_INLINE void xf_put_bits(uint8_t *p, uint32_t bit, uint32_t width, uint64_t v) {
    uint32_t left = width;
    p += bit >> 3;
    bit &= 7;
    while (left) {
        uint32_t take = 8 - bit, shift;
        uint8_t mask;
        if (take > left) take = left;
        shift = 8 - bit - take;
        mask = (uint8_t)(((1u << take) - 1) << shift);
        p[0] = (uint8_t)((p[0] & ~mask) | (((v >> (left - take)) << shift) & mask));
        left -= take;
        bit = 0;
        p++;
    }
}

XF_INLINE uint64_t xf_sext(uint64_t v, uint32_t width) {
    uint64_t sign = 1ul << (width - 1);
    return (v ^ sign) - sign;
}
XF_INLINE uint64_t xf_shl(uint64_t v, uint64_t by) { return by > 63 ? 0 : v << by; }
XF_INLINE uint64_t xf_shr(uint64_t v, uint64_t by) { return by > 63 ? 0 : v >> by; }
/* Arithmetic shift without relying on the sign of a right shift. */
XF_INLINE uint64_t xf_sar(uint64_t v, uint64_t by) {
    uint64_t fill = 0 - (v >> 63);
    if (by > 63) return fill;
    return by ? (v >> by) | (fill << (64 - by)) : v;
}
XF_INLINE uint64_t xf_udiv(uint64_t a, uint64_t b) { return b ? a / b : 0; }
XF_INLINE uint64_t xf_umod(uint64_t a, uint64_t b) { return b ? a % b : 0; }
XF_INLINE uint64_t xf_sdiv(uint64_t a, uint64_t b) {
    uint64_t q, na = a >> 63, nb = b >> 63;
    if (!b) return 0;
    q = (na ? 0 - a : a) / (nb ? 0 - b : b);
    return na != nb ? 0 - q : q;
}
XF_INLINE uint64_t xf_smod(uint64_t a, uint64_t b) {
    uint64_t r;
    if (!b) return 0;
    r = (a >> 63 ? 0 - a : a) % (b >> 63 ? 0 - b : b);
    return a >> 63 ? 0 - r : r;
}
/* A stack's element: `depth` (a scratch element that the program's writes cannot be seen through) when out of range. */
XF_INLINE uint32_t xf_element(uint64_t index, uint32_t depth) { return index < depth ? (uint32_t)index : depth; }

/* Stacks: shift elements away from or towards the front; elements that come in are invalid and zero. */
XF_INLINE void xf_stack_push(void *base, size_t size, uint32_t depth, uint64_t count, uint32_t *next) {
    uint32_t n = count < depth ? (uint32_t)count : depth;
    memmove((uint8_t *)base + n * size, base, (depth - n) * size);
    memset(base, 0, n * size);
    *next = *next + n < depth ? *next + n : depth;
}
XF_INLINE void xf_stack_pop(void *base, size_t size, uint32_t depth, uint64_t count, uint32_t *next) {
    uint32_t n = count < depth ? (uint32_t)count : depth;
    memmove(base, (uint8_t *)base + n * size, (depth - n) * size);
    memset((uint8_t *)base + (depth - n) * size, 0, n * size);
    *next = *next > n ? *next - n : 0;
}

/* ---- values of several limbs (wide.c) ---- */
void xf_w_set(uint64_t *r, uint32_t n, uint64_t low, int negative);
void xf_w_resize(uint64_t *r, uint32_t n, const uint64_t *a, uint32_t an, int is_signed);
void xf_w_add(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n);
void xf_w_sub(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n);
void xf_w_mul(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n);
void xf_w_div(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n, int modulo);
void xf_w_and(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n);
void xf_w_or(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n);
void xf_w_xor(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n);
void xf_w_not(uint64_t *r, const uint64_t *a, uint32_t n);
void xf_w_shl(uint64_t *r, const uint64_t *a, uint64_t by, uint32_t n);
void xf_w_sar(uint64_t *r, const uint64_t *a, uint64_t by, uint32_t n);
int xf_w_cmp(const uint64_t *a, const uint64_t *b, uint32_t n); /* signed: -1, 0, 1 */
void xf_w_mask(uint64_t *r, uint32_t n, uint32_t width);        /* keep the low `width` bits */
void xf_w_sext(uint64_t *r, uint32_t n, uint32_t width);        /* sign-extend from `width` bits */
void xf_w_get(uint64_t *r, uint32_t n, const uint8_t *p, uint32_t bit, uint32_t width);
void xf_w_put(const uint64_t *a, uint8_t *p, uint32_t bit, uint32_t width);

/* ---- externs that are worth inlining ---- */
XF_INLINE void xf_count(xf_ctx *x, uint32_t counter, uint64_t index, uint32_t stride) {
    xf_counter *c;
    if (index >= x->counter_sizes[counter]) {
        xf_out_of_bounds(x);
        return;
    }
    c = &x->counters[counter][index * stride];
    c->packets++;
    c->bytes += x->ingress_length;
}

#endif
