/* A net under the packet path.
 *
 * Generated code and engine run in the process of many switches, so a fault of one (a null pointer, an illegal
 * instruction, a division) would take the tables of all with it. The guarded calls note where to go back to; the signal
 * handler of a thread that is inside one goes there, the engine's lock is given back, and these calls never enter the engine
 * again. Its memory may be inconsistent, so it is not given back either (xf_free).
 *
 * What this cannot do: undo what wrong code wrote into another engine's memory before it faulted, or help with faults of
 * control calls. Without xf_guard the calls are the plain ones, as in a build with sanitizers: a net would hide their
 * reports. */
#include "atomic.h"
#include "engine.h"
#include "guard.h"

#define SIGILL 4
#define SIGBUS 7
#define SIGFPE 8
#define SIGSEGV 11
#define SA_SIGINFO 4
#define SA_NODEFER 0x40000000

/* sigaction as C libraries of 64-bit Linux have it; room for any jmp_buf (200 bytes on x86-64, 312 on aarch64). */
struct action {
    void (*handler)(int, const int *, void *);
    uint64_t mask[16];
    int flags;
    void (*restorer)(void);
};
typedef struct guard {
    uint64_t jump[64] __attribute__((aligned(16)));
    int signal;
} guard;

int sigaction(int signal, const struct action *to, struct action *old);
int raise(int signal);
int pthread_key_create(uint32_t *key, void (*end)(void *));
int pthread_setspecific(uint32_t key, const void *value);
void *pthread_getspecific(uint32_t key);
int _setjmp(void *jump) __attribute__((returns_twice));
void longjmp(void *jump, int value) __attribute__((noreturn));

static const int faults[] = {SIGILL, SIGBUS, SIGFPE, SIGSEGV};
#define FAULTS (sizeof faults / sizeof *faults)
static struct action before[FAULTS];
static uint32_t inside; /* key: the guard of the call that a thread is in */
static int on; /* atomic */

static void caught(int signal, const int *info, void *context) {
    guard *g = pthread_getspecific(inside);
    uint32_t i;
    (void)context;
    if (g) {
        g->signal = signal;
        longjmp(g->jump, 1);
    }
    for (i = 0; i < FAULTS; i++)
        if (faults[i] == signal) sigaction(signal, &before[i], NULL);
    if (info[2] <= 0) raise(signal); /* sent by somebody; else the instruction faults again on return */
}

int xf_guard(void) {
    static xf_mutex once;
    struct action action;
    uint32_t i;
    pthread_mutex_lock(&once);
#ifndef XF_SANITIZE
    if (!atomic_get(&on) && !pthread_key_create(&inside, NULL)) {
        memset(&action, 0, sizeof action);
        action.handler = caught;
        action.flags = SA_SIGINFO | SA_NODEFER; /* going back restores no signal mask, so nothing may be masked */
        for (i = 0; i < FAULTS; i++) sigaction(faults[i], &action, &before[i]);
        atomic_set(&on, 1);
    }
    i = !on;
#else
    (void)action;
    i = 0;
#endif
    pthread_mutex_unlock(&once);
    return i ? XF_ENOMEM : 0;
}

static int crashed(xf_engine *e, int signal) {
    atomic_set(&e->crashed, signal);
    engine_unlock(e);
    return XF_ECRASHED;
}

int xf_rx_guarded(xf_engine *e, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now) {
    xf_frame one;
    one.data = frame;
    one.length = length;
    one.port = port;
    return xf_rx_burst_guarded(e, &one, 1, now);
}

int xf_rx_burst_guarded(xf_engine *e, const xf_frame *frames, uint32_t count, uint64_t now) {
    guard g;
    int result;
    if (atomic_peek(&e->crashed)) return XF_ECRASHED;
    if (!atomic_get(&on)) return xf_rx_burst(e, frames, count, now);
    pthread_setspecific(inside, &g);
    if (_setjmp(g.jump)) result = crashed(e, g.signal);
    else result = xf_rx_burst(e, frames, count, now);
    pthread_setspecific(inside, NULL);
    return result;
}

int xf_poll_guarded(xf_engine *e, uint64_t now, xf_frame *out, uint32_t room) {
    guard g;
    int result;
    if (atomic_peek(&e->crashed)) return XF_ECRASHED;
    if (!atomic_get(&on)) return xf_poll(e, now, out, room);
    pthread_setspecific(inside, &g);
    if (_setjmp(g.jump)) result = crashed(e, g.signal);
    else result = xf_poll(e, now, out, room);
    pthread_setspecific(inside, NULL);
    return result;
}

int xf_crashed(const xf_engine *e) { return atomic_get(&e->crashed); }
