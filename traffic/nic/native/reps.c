/* REPS, the sender's choice of entropy (reps.py, whose algorithm and names these are). */
#include "nic.h"

#define FIRST_ENTROPY 0xc000u
#define MULTIPLIER 6364136223846793005ul
#define INCREMENT 1442695040888963407ul

void xn_reps_init(xn_reps *reps, const xn_config *config, const xn_pair_config *pair) {
    memset(reps, 0, sizeof *reps);
    reps->random = pair->send_psn << 16 | pair->source_port;
    reps->size = config->reps_buffer;
}

uint32_t xn_reps_next(xn_reps *reps, const xn_config *config) {
    uint32_t at;
    if (reps->explore || !reps->filled || !(reps->valid || reps->frozen)) {
        if (reps->explore) reps->explore--;
        reps->explored++;
        reps->random = reps->random * MULTIPLIER + INCREMENT;
        return FIRST_ENTROPY + (uint32_t)((reps->random >> 32) * config->reps_entropies >> 32);
    }
    reps->recycled++;
    if (reps->valid) {
        at = (reps->head + reps->size - reps->valid) % reps->size;
        reps->valid--;
    } else {
        at = reps->head;
        reps->head = (at + 1) % reps->size;
    }
    return reps->buffer[at];
}

void xn_reps_ack(xn_reps *reps, const xn_config *config, uint32_t entropy, uint32_t marked, uint64_t now) {
    uint32_t i;
    if (marked) return;
    for (i = 0; !reps->filled && i < reps->size; i++) reps->buffer[i] = (uint16_t)entropy;
    reps->filled = 1;
    reps->buffer[reps->head] = (uint16_t)entropy;
    reps->head = (reps->head + 1) % reps->size;
    if (reps->valid < reps->size) reps->valid++;
    if (reps->frozen && now > reps->frozen_until) {
        reps->frozen = 0;
        reps->explore = config->reps_explore;
    }
}

void xn_reps_failure(xn_reps *reps, const xn_config *config, uint64_t now) {
    if (!config->reps_freezing_ns || reps->frozen || reps->explore) return;
    reps->frozen = 1;
    reps->freezes++;
    reps->frozen_until = now + config->reps_freezing_ns;
}
