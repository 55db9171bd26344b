/* Events: a binary heap of (time, id) with each id at most once, so that an event can be moved or withdrawn.
 *
 * Ties go to the lower id: by kind first, then by port, which makes runs repeatable. */
#include "engine.h"

static int before(const xf_events *h, uint16_t a, uint16_t b) {
    if (h->time[a] != h->time[b]) return h->time[a] < h->time[b];
    return a < b;
}

static void put(xf_events *h, uint32_t at, uint16_t id) {
    h->heap[at] = id;
    h->place[id] = (uint16_t)(at + 1);
}

static void up(xf_events *h, uint32_t at, uint16_t id) {
    while (at) {
        uint32_t parent = (at - 1) / 2;
        if (!before(h, id, h->heap[parent])) break;
        put(h, at, h->heap[parent]);
        at = parent;
    }
    put(h, at, id);
}

static void down(xf_events *h, uint32_t at, uint16_t id) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= h->count) break;
        if (child + 1 < h->count && before(h, h->heap[child + 1], h->heap[child])) child++;
        if (!before(h, h->heap[child], id)) break;
        put(h, at, h->heap[child]);
        at = child;
    }
    put(h, at, id);
}

void events_set(xf_events *h, uint32_t id, xf_ps time) {
    uint32_t at = h->place[id];
    if (time == XF_NEVER) {
        uint16_t last;
        if (!at) return;
        h->place[id] = 0;
        last = h->heap[--h->count];
        if (last == id) return;
        at--;
        if (at && before(h, last, h->heap[(at - 1) / 2])) up(h, at, last);
        else down(h, at, last);
        return;
    }
    if (!at) {
        h->time[id] = time;
        up(h, h->count++, (uint16_t)id);
    } else if (time < h->time[id]) {
        h->time[id] = time;
        up(h, at - 1, (uint16_t)id);
    } else if (time > h->time[id]) {
        h->time[id] = time;
        down(h, at - 1, (uint16_t)id);
    }
}
