/* Values of several 64-bit limbs, least significant first, two's complement. Results may overwrite operands. */
#include "pipeline.h"

#define MAX_LIMBS 64

void xf_w_set(uint64_t *r, uint32_t n, uint64_t low, int negative) {
    uint32_t i;
    r[0] = low;
    for (i = 1; i < n; i++) r[i] = negative ? UINT64_MAX : 0;
}

void xf_w_resize(uint64_t *r, uint32_t n, const uint64_t *a, uint32_t an, int is_signed) {
    uint64_t fill = is_signed && a[an - 1] >> 63 ? UINT64_MAX : 0;
    uint32_t i;
    for (i = 0; i < n; i++) r[i] = i < an ? a[i] : fill;
}

void xf_w_add(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint64_t carry = 0;
    uint32_t i;
    for (i = 0; i < n; i++) {
        uint64_t s = a[i] + b[i], c = s < a[i], t = s + carry;
        carry = c | (t < s);
        r[i] = t;
    }
}

void xf_w_sub(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint64_t borrow = 0;
    uint32_t i;
    for (i = 0; i < n; i++) {
        uint64_t d = a[i] - b[i], c = a[i] < b[i], t = d - borrow;
        borrow = c | (d < borrow);
        r[i] = t;
    }
}

static uint64_t mul64(uint64_t a, uint64_t b, uint64_t *high) {
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t low = al * bl, m1 = ah * bl + (low >> 32), m2 = al * bh + (uint32_t)m1;
    *high = ah * bh + (m1 >> 32) + (m2 >> 32);
    return m2 << 32 | (uint32_t)low;
}

void xf_w_mul(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint64_t t[MAX_LIMBS];
    uint32_t i, k;
    memset(t, 0, n * sizeof *t);
    for (i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (k = 0; i + k < n; k++) {
            uint64_t high, low = mul64(a[i], b[k], &high), s = t[i + k] + low;
            high += s < low;
            low = s + carry;
            high += low < s;
            t[i + k] = low;
            carry = high;
        }
    }
    memcpy(r, t, n * sizeof *t);
}

static void negate(uint64_t *r, uint32_t n) {
    uint64_t carry = 1;
    uint32_t i;
    for (i = 0; i < n; i++) {
        r[i] = ~r[i] + carry;
        carry = carry && !r[i];
    }
}

/* Truncating division, as C's; by zero gives 0. */
void xf_w_div(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n, int modulo) {
    uint64_t num[MAX_LIMBS], den[MAX_LIMBS], quo[MAX_LIMBS], rem[MAX_LIMBS], zero = 0;
    int na = (int)(a[n - 1] >> 63), nb = (int)(b[n - 1] >> 63);
    uint32_t i;
    memcpy(num, a, n * sizeof *num);
    memcpy(den, b, n * sizeof *den);
    memset(quo, 0, n * sizeof *quo);
    memset(rem, 0, n * sizeof *rem);
    for (i = 0; i < n; i++) zero |= b[i];
    if (zero) {
        if (na) negate(num, n);
        if (nb) negate(den, n);
        for (i = 64 * n; i-- > 0;) {
            uint32_t k;
            int ge = 1;
            xf_w_shl(rem, rem, 1, n);
            rem[0] |= num[i / 64] >> (i % 64) & 1;
            for (k = n; k-- > 0;)
                if (rem[k] != den[k]) {
                    ge = rem[k] > den[k];
                    break;
                }
            if (ge) {
                xf_w_sub(rem, rem, den, n);
                quo[i / 64] |= 1ul << (i % 64);
            }
        }
        if (na != nb) negate(quo, n);
        if (na) negate(rem, n);
    }
    memcpy(r, modulo ? rem : quo, n * sizeof *r);
}

void xf_w_and(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint32_t i;
    for (i = 0; i < n; i++) r[i] = a[i] & b[i];
}

void xf_w_or(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint32_t i;
    for (i = 0; i < n; i++) r[i] = a[i] | b[i];
}

void xf_w_xor(uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint32_t i;
    for (i = 0; i < n; i++) r[i] = a[i] ^ b[i];
}

void xf_w_not(uint64_t *r, const uint64_t *a, uint32_t n) {
    uint32_t i;
    for (i = 0; i < n; i++) r[i] = ~a[i];
}

void xf_w_shl(uint64_t *r, const uint64_t *a, uint64_t by, uint32_t n) {
    uint32_t limbs = by / 64 > n ? n : (uint32_t)(by / 64), bits = (uint32_t)(by % 64), i;
    for (i = n; i-- > 0;) {
        uint64_t v = i >= limbs ? a[i - limbs] : 0;
        uint64_t low = bits && i > limbs ? a[i - limbs - 1] >> (64 - bits) : 0;
        r[i] = v << bits | low;
    }
}

void xf_w_sar(uint64_t *r, const uint64_t *a, uint64_t by, uint32_t n) {
    uint32_t limbs = by / 64 > n ? n : (uint32_t)(by / 64), bits = (uint32_t)(by % 64), i;
    uint64_t fill = a[n - 1] >> 63 ? UINT64_MAX : 0;
    for (i = 0; i < n; i++) {
        uint64_t v = i + limbs < n ? a[i + limbs] : fill;
        uint64_t high = i + limbs + 1 < n ? a[i + limbs + 1] : fill;
        r[i] = bits ? v >> bits | high << (64 - bits) : v;
    }
}

int xf_w_cmp(const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint64_t sa = a[n - 1] >> 63, sb = b[n - 1] >> 63;
    uint32_t i;
    if (sa != sb) return sa ? -1 : 1;
    for (i = n; i-- > 0;)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

void xf_w_mask(uint64_t *r, uint32_t n, uint32_t width) {
    uint32_t i = width / 64;
    if (i >= n) return;
    r[i] &= width % 64 ? (1ul << (width % 64)) - 1 : 0;
    for (i++; i < n; i++) r[i] = 0;
}

void xf_w_sext(uint64_t *r, uint32_t n, uint32_t width) {
    uint32_t at = (width - 1) / 64, bit = (width - 1) % 64, i;
    uint64_t fill;
    if (at >= n) return;
    fill = r[at] >> bit & 1 ? UINT64_MAX : 0;
    if (bit < 63) r[at] = (r[at] & ((2ul << bit) - 1)) | (fill << (bit + 1));
    for (i = at + 1; i < n; i++) r[i] = fill;
}

void xf_w_get(uint64_t *r, uint32_t n, const uint8_t *p, uint32_t bit, uint32_t width) {
    uint32_t i = 0, end = bit + width;
    memset(r, 0, n * sizeof *r);
    while (width) {
        uint32_t take = width < 64 ? width : 64;
        r[i++] = xf_get_bits(p, end - take, take);
        end -= take;
        width -= take;
    }
}

void xf_w_put(const uint64_t *a, uint8_t *p, uint32_t bit, uint32_t width) {
    uint32_t i = 0, end = bit + width;
    while (width) {
        uint32_t take = width < 64 ? width : 64;
        xf_put_bits(p, end - take, take, a[i++]);
        end -= take;
        width -= take;
    }
}
