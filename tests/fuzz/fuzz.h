/* What the harnesses share: reading commands from an input, and the list of programs. */
#ifndef FUZZ_H
#define FUZZ_H

#include "libc.h"

typedef struct input {
    const uint8_t *at, *end;
} input;

/* Beyond the end all bytes are zero. */
static inline uint64_t take(input *in, uint32_t bytes) {
    uint64_t v = 0;
    while (bytes--) v = v << 8 | (in->at < in->end ? *in->at++ : 0);
    return v;
}

/* A number of any size: how many bytes, then those. */
static inline uint64_t number(input *in) { return take(in, (uint32_t)take(in, 1) % 9); }

static inline void words(input *in, uint64_t *to, uint32_t count) {
    while (count--) *to++ = number(in);
}

struct xf_program;
typedef struct fuzzed_program {
    const struct xf_program *(*get)(void);
    const uint8_t *prologue;
    size_t prologue_bytes;
} fuzzed_program;
extern const fuzzed_program fuzzed[];
extern const uint32_t fuzzed_count;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
