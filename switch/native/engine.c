/* The engine: life and death, the order of decisions around the pipelines, and the clockwork that runs events.
 *
 * The order of decisions at the end of ingress and egress is simple_switch's. What differs on purpose: header fields are
 * zero in a new packet (simple_switch shows the last packet's), re-entering packets carry a true ingress timestamp,
 * and one instant may see a packet only so often (LOOP_LIMIT), so that no program can hang the switch. */
#include "engine.h"
#include "fabric.h"
#include "hash.h"

#define LOOP_LIMIT 128u
#define CPU_FRAMES 4096u
#define RING_WORDS (1u << 16)
#define CLONE_SESSIONS 0x7fffu

void engine_lock(xf_engine *e) { pthread_mutex_lock(e->lock); }
void engine_unlock(xf_engine *e) { pthread_mutex_unlock(e->lock); }

unsigned xf_abi(void) { return XF_ABI; }

/* ---- life ---- */

xf_engine *xf_new(uint32_t device_id, uint32_t cpu_port, uint32_t drop_port, uint64_t timestamp_hz,
                  uint32_t priority_queues, uint64_t seed) {
    static xf_mutex once;
    static int ready;
    xf_engine *e;
    xf_port *cpu;
    int c;
    if (!timestamp_hz || timestamp_hz > NS_PER_S || !priority_queues || priority_queues > XF_CLASSES) return NULL;
    if (cpu_port >= XF_MAX_PORTS) return NULL;
    pthread_mutex_lock(&once);
    if (!ready) hash_init();
    ready = 1;
    pthread_mutex_unlock(&once);
    e = memory_take(sizeof *e);
    if (!e) return NULL;
    e->lock = &e->mutex;
    e->device_id = device_id;
    e->cpu_port = cpu_port;
    e->drop_port = drop_port;
    e->timestamp_hz = timestamp_hz;
    e->priority_queues = priority_queues;
    e->random = seed ^ ((uint64_t)device_id << 32);
    e->next_sweep = XF_NEVER;
    for (c = 0; c < XF_CLASSES; c++) {
        e->settings[c].limit_bytes = 16ul << 20;
        e->settings[c].limit_packets = 16384;
        e->settings[c].alpha = 1u << 16;
    }
    cpu = port_get(e, cpu_port);
    if (!cpu || ring_init(&e->digests, RING_WORDS) || ring_init(&e->pauses, RING_WORDS) ||
        ring_init(&e->idles, RING_WORDS / 16) || ring_init(&e->logs, RING_WORDS / 16)) {
        xf_free(e);
        return NULL;
    }
    cpu->exists = 1;
    return e;
}

static void list_free(xf_list *l) {
    xf_packet *p;
    while ((p = list_pop(l))) packet_free(p);
}

/* Frees the program's state; packets in flight keep their pool (a fabric's is its own). */
static void unload(xf_engine *e) {
    const xf_program *p = e->program;
    uint32_t i;
    if (!p) return;
    for (i = 0; i < XF_MAX_PORTS; i++)
        if (e->ports[i]) port_clear(e, e->ports[i], XF_DROP_SWAP);
    if (e->tables)
        for (i = 0; i < p->table_count; i++)
            if (e->tables[i]) table_free(e->tables[i]);
    if (e->profiles)
        for (i = 0; i < p->profile_count; i++)
            if (e->profiles[i]) profile_free(e->profiles[i]);
    if (e->counters)
        for (i = 0; i < p->counter_count; i++)
            if (p->counters[i].first == i)
                memory_give(e->counters[i], (p->counters[i].size + 1ul) * p->counters[i].stride * sizeof(xf_counter));
    if (e->registers)
        for (i = 0; i < p->register_count; i++)
            if (p->registers[i].first == i)
                memory_give(e->registers[i], (p->registers[i].size + 1ul) * p->registers[i].stride * sizeof(uint64_t));
    if (e->meters)
        for (i = 0; i < p->meter_count; i++) free(e->meters[i]);
    if (e->value_sets)
        for (i = 0; i < p->value_set_count; i++) free(e->value_sets[i].values);
    free(e->tables);
    free(e->profiles);
    free(e->counters);
    free(e->counter_sizes);
    free(e->registers);
    free(e->register_sizes);
    free(e->meters);
    free(e->value_sets);
    e->row_count = 0;
    e->tables = NULL;
    e->profiles = NULL;
    e->counters = NULL;
    e->counter_sizes = NULL;
    e->registers = NULL;
    e->register_sizes = NULL;
    e->meters = NULL;
    e->value_sets = NULL;
    phvs_free(e->phvs);
    e->phvs = NULL;
    if (!e->fabric) {
        pool_retire(e->pool);
        e->pool = NULL;
    }
    e->program = NULL;
    e->next_sweep = XF_NEVER;
}

static void rows_find(xf_engine *e, const xf_array_desc *d, uint32_t count, xf_counter **counters, uint64_t **words) {
    uint32_t i;
    for (i = 0; i < count && e->row_count < XF_ROWS; i++) {
        xf_rows *rows = &e->rows[e->row_count];
        if (d[i].first != i || (d[i].size != XF_MAX_PORTS && d[i].size != XF_MAX_PORTS * XF_CLASSES)) continue;
        rows->at = counters ? (const uint8_t *)counters[i] : (const uint8_t *)words[i];
        rows->bytes = d[i].stride * (uint32_t)(counters ? sizeof(xf_counter) : sizeof(uint64_t));
        rows->by_class = d[i].size != XF_MAX_PORTS;
        e->row_count++;
    }
}

static int load(xf_engine *e, const xf_program *p) {
    uint32_t i;
    e->program = p;
    e->pool = e->fabric ? fabric_pool_for(e->fabric, p->header_bytes) : pool_new(p->header_bytes);
    e->phvs = phvs_new(p->phv_size);
    e->tables = calloc(p->table_count + 1, sizeof *e->tables);
    e->profiles = calloc(p->profile_count + 1, sizeof *e->profiles);
    e->counters = calloc(p->counter_count + 1, sizeof *e->counters);
    e->counter_sizes = calloc(p->counter_count + 1, sizeof *e->counter_sizes);
    e->registers = calloc(p->register_count + 1, sizeof *e->registers);
    e->register_sizes = calloc(p->register_count + 1, sizeof *e->register_sizes);
    e->meters = calloc(p->meter_count + 1, sizeof *e->meters);
    e->value_sets = calloc(p->value_set_count + 1, sizeof *e->value_sets);
    if (!e->pool || !e->phvs || !e->tables || !e->profiles || !e->counters || !e->counter_sizes || !e->registers ||
        !e->register_sizes || !e->meters || !e->value_sets)
        return XF_ENOMEM;
    for (i = 0; i < p->profile_count; i++) {
        e->profiles[i] = calloc(1, sizeof(xf_profile));
        if (!e->profiles[i]) return XF_ENOMEM;
        e->profiles[i]->desc = &p->profiles[i];
    }
    for (i = 0; i < p->table_count; i++) {
        const xf_table_desc *d = &p->tables[i];
        e->tables[i] = memory_take(sizeof(xf_table));
        if (!e->tables[i]) return XF_ENOMEM;
        if (table_init(e->tables[i], d, d->profile == XF_NO_PROFILE ? NULL : e->profiles[d->profile]))
            return XF_ENOMEM;
    }
    for (i = 0; i < p->counter_count; i++) {
        const xf_array_desc *d = &p->counters[i];
        e->counter_sizes[i] = d->size;
        if (d->first == i) e->counters[i] = memory_take((d->size + 1ul) * d->stride * sizeof(xf_counter));
        else e->counters[i] = e->counters[d->first] + d->offset;
        if (!e->counters[i]) return XF_ENOMEM;
    }
    for (i = 0; i < p->register_count; i++) {
        const xf_array_desc *d = &p->registers[i];
        e->register_sizes[i] = d->size;
        if (d->first == i) e->registers[i] = memory_take((d->size + 1ul) * d->stride * sizeof(uint64_t));
        else e->registers[i] = e->registers[d->first] + d->offset;
        if (!e->registers[i]) return XF_ENOMEM;
    }
    rows_find(e, p->counters, p->counter_count, e->counters, NULL);
    rows_find(e, p->registers, p->register_count, NULL, e->registers);
    for (i = 0; i < p->meter_count; i++) {
        e->meters[i] = calloc(p->meters[i].size + 1ul, sizeof(xf_meter));
        if (!e->meters[i]) return XF_ENOMEM;
    }
    for (i = 0; i < p->entry_count; i++) {
        const xf_entry_init *n = &p->entries[i];
        int rc = table_add(e, e->tables[n->table], n->key, n->mask, n->ranges, n->rank, n->action, n->args, 0, 0,
                           e->tables[n->table]->desc->entries_const, NULL);
        if (rc) return rc;
    }
    return 0;
}

int xf_load(xf_engine *e, const xf_program *program) {
    int rc = 0;
    uint32_t i, c;
    if (program && program->abi != XF_ABI) return XF_EABI;
    if (program && program->digest_words > sizeof e->scratch / sizeof *e->scratch) return XF_EINVAL;
    engine_lock(e);
    unload(e);
    if (program && (rc = load(e, program))) unload(e);
    /* The new program's pause register is zero. */
    for (i = 0; i < XF_MAX_PORTS; i++)
        for (c = 0; e->ports[i] && c < XF_CLASSES; c++) queue_pause(e, e->ports[i], c, 0);
    engine_unlock(e);
    return rc;
}

void xf_free(xf_engine *e) {
    uint32_t i;
    if (!e) return;
    if (e->fabric) fabric_leave(e);
    unload(e);
    for (i = 0; i < XF_MAX_PORTS; i++) {
        if (!e->ports[i]) continue;
        list_free(&e->ports[i]->flight);
        memory_give(e->ports[i], sizeof *e->ports[i]);
    }
    list_free(&e->out);
    list_free(&e->held);
    list_free(&e->cpu);
    list_free(&e->cpu_held);
    replicas_free(&e->groups);
    replicas_free(&e->sessions);
    free(e->digests.words);
    free(e->pauses.words);
    free(e->idles.words);
    free(e->logs.words);
    free(e->trace);
    memory_give(e, sizeof *e);
}

/* ---- randomness ---- */

static uint64_t random_word(xf_engine *e) { return split_mix(&e->random); }

uint64_t xf_random(xf_ctx *x, uint64_t low, uint64_t high) {
    uint64_t span = high - low + 1, limit, v;
    if (!span) return random_word(x->engine);
    limit = UINT64_MAX - (UINT64_MAX % span + 1) % span;
    do v = random_word(x->engine);
    while (v > limit);
    return low + v % span;
}

/* ---- the pipelines ---- */

static void context(xf_engine *e, xf_ctx *x) {
    /* Field by field: compilers clear a struct of this size by a slow string instruction. */
    x->parsed = 0;
    x->now = ns_of(e, e->now);
    x->ticks = ticks_of(e, x->now);
    x->ingress_port = x->instance_type = 0;
    x->egress_port = x->enq_qdepth = x->deq_qdepth = x->qid = 0;
    x->enq_ticks = x->deq_timedelta = 0;
    x->egress_spec = x->mcast_grp = 0;
    x->clone_session = x->clone_list = 0;
    x->digest_list = x->resubmit_list = x->recirculate_list = 0;
    x->truncate = UINT32_MAX;
    x->exit = x->budget = 0;
    x->drop_port = e->drop_port;
    x->parser_error = 0;
    x->checksum_error = 0;
    x->source = NULL;
    x->source_list = 0;
    x->trail = x->trail_end = NULL;
    x->engine = e;
    x->tables = e->tables;
    x->counters = e->counters;
    x->counter_sizes = e->counter_sizes;
    x->registers = e->registers;
    x->register_sizes = e->register_sizes;
}

/* A packet that re-enters or is copied at the same instant counts up; 0 when it did so too often. */
static int may_loop(xf_engine *e, const xf_packet *from, xf_packet *to) {
    to->passes = from->pass_time == e->now ? from->passes + 1 : 1;
    to->pass_time = e->now;
    return to->passes <= LOOP_LIMIT;
}

static xf_packet *copy(xf_engine *e, const xf_packet *p, const uint8_t *data, uint32_t length, int with_phv) {
    xf_packet *c;
    if (length > XF_MAX_FRAME) {
        count_drop(e, XF_DROP_OVERSIZE, XF_MAX_PORTS, length);
        return NULL;
    }
    c = packet_new(e->pool, length);
    if (!c || !packet_open(c, e->phvs)) {
        if (c) packet_free(c);
        count_drop(e, XF_DROP_NO_MEMORY, XF_MAX_PORTS, length);
        return NULL;
    }
    memcpy(c->data, data, length);
    if (with_phv) memcpy(c->phv, p->phv, e->program->phv_size);
    c->packet_length = p->packet_length;
    c->ingress_length = p->ingress_length;
    if (!may_loop(e, p, c)) {
        count_drop(e, XF_DROP_LOOP, XF_MAX_PORTS, length);
        packet_free(c);
        return NULL;
    }
    return c;
}

/* What `copy` would return for a packet that is not needed any more: itself. */
static xf_packet *moved(xf_engine *e, xf_packet *p) {
    uint32_t passes = p->passes;
    xf_ps pass_time = p->pass_time;
    packet_reset(p);
    p->passes = passes;
    p->pass_time = pass_time;
    if (may_loop(e, p, p)) return p;
    count_drop(e, XF_DROP_LOOP, XF_MAX_PORTS, p->length);
    packet_free(p);
    return NULL;
}

/* One enqueued copy of `p` (whose PHV carries its instance type) per replica; with `last` the last one is `p` itself. */
static void replicate(xf_engine *e, xf_packet *p, const xf_replicas *r, uint32_t truncate, int last) {
    uint32_t i;
    for (i = 0; i < r->count; i++) {
        xf_packet *c = last && i + 1 == r->count ? moved(e, p) : copy(e, p, p->data, p->length, 1);
        if (!c) continue;
        if (r->at[i].rid != UINT32_MAX) e->program->set_rid(c->phv, r->at[i].rid);
        if (truncate) c->truncate = truncate;
        port_enqueue(e, c, r->at[i].port);
    }
}

static void send_clones(xf_engine *e, xf_packet *clone, const xf_replicas *session) {
    int last = !session->group && session->count;
    replicate(e, clone, session, session->truncate, last);
    if (session->group) {
        const xf_replicas *g = replicas_find(&e->groups, session->group);
        last = g && g->count;
        if (last) replicate(e, clone, g, session->truncate, last);
        else count_drop(e, XF_DROP_NO_MULTICAST, XF_MAX_PORTS, clone->length);
    }
    if (!last) packet_free(clone);
}

static const xf_replicas *clone_session(xf_engine *e, uint32_t asked, uint32_t bytes) {
    const xf_replicas *s = replicas_find(&e->sessions, asked & CLONE_SESSIONS);
    if (!s) count_drop(e, XF_DROP_NO_CLONE, XF_MAX_PORTS, bytes);
    return s;
}

void ingress_pass(xf_engine *e, xf_packet *p, uint32_t port, uint32_t instance, const void *source, uint32_t list) {
    const xf_program *prog = e->program;
    xf_packet *again = NULL;
    xf_ctx x;
    for (;;) {
        context(e, &x);
        x.frame = p->data;
        x.length = p->length;
        x.ingress_port = port;
        x.instance_type = instance;
        x.packet_length = p->length;
        x.ingress_length = p->ingress_length;
        x.source = source;
        x.source_list = list;
        if (instance == XF_NORMAL && e->ports[port]) {
            x.trail = e->ports[port]->ingress.at;
            x.trail_end = x.trail + XF_TRAIL;
        }
        prog->ingress(&x, p->phv);
        if (again) packet_free(again);
        again = NULL;
        if (x.parser_error) e->faults.parser_errors++;
        if (x.checksum_error) e->faults.checksum_errors++;

        if (x.clone_session) {
            const xf_replicas *s = clone_session(e, x.clone_session, p->length);
            xf_packet *c = s ? copy(e, p, p->data, p->length, 0) : NULL;
            if (c) {
                xf_ctx y;
                context(e, &y);
                y.frame = c->data;
                y.length = c->length;
                y.ingress_port = port;
                y.packet_length = c->length;
                y.ingress_length = c->ingress_length;
                prog->parse(&y, c->phv);
                prog->reset_metadata(c->phv);
                prog->copy_fields(x.clone_list, c->phv, p->phv);
                prog->set_instance(c->phv, XF_CLONE_I2E);
                c->data += y.parsed;
                c->length -= y.parsed;
                c->packet_length = p->length;
                send_clones(e, c, s);
            }
        }
        if (x.digest_list) {
            uint32_t n = prog->digest(x.digest_list, p->phv, e->scratch);
            if (ring_put(&e->digests, x.digest_list, x.now, e->scratch, n)) e->pending |= XF_PENDING_DIGEST;
        }
        if (!x.resubmit_list) break;
        again = p;
        p = copy(e, again, again->data, again->length, 0);
        if (!p) {
            packet_free(again);
            return;
        }
        port = 0;
        instance = XF_RESUBMITTED;
        source = again->phv;
        list = x.resubmit_list;
    }
    p->data += x.parsed;
    p->length -= x.parsed;
    p->packet_length = x.packet_length;
    p->truncate = x.truncate; /* replicas and clones do not inherit it */
    if (x.mcast_grp) {
        const xf_replicas *g = replicas_find(&e->groups, x.mcast_grp);
        prog->set_instance(p->phv, XF_REPLICATED);
        if (g && g->count) {
            replicate(e, p, g, 0, 1);
            return;
        }
        count_drop(e, XF_DROP_NO_MULTICAST, port, p->packet_length);
        packet_free(p);
        return;
    }
    if (x.egress_spec == e->drop_port) {
        count_drop(e, XF_DROP_INGRESS, port, p->packet_length);
        packet_free(p);
        return;
    }
    prog->set_instance(p->phv, XF_NORMAL);
    port_enqueue(e, p, x.egress_spec);
}

int egress_pass(xf_engine *e, xf_packet *p, xf_port *port, uint32_t cls) {
    const xf_program *prog = e->program;
    uint32_t headers, length;
    xf_ctx x;
    context(e, &x);
    x.frame = p->data;
    x.length = p->length;
    x.packet_length = p->packet_length;
    x.ingress_length = p->ingress_length;
    x.egress_port = port->number;
    x.qid = cls;
    x.enq_ticks = p->enq_ticks;
    x.enq_qdepth = p->enq_qdepth;
    x.deq_timedelta = x.ticks - p->enq_ticks;
    x.deq_qdepth = (uint32_t)port->queues[cls].count;
    x.truncate = p->truncate;
    x.trail = port->egress.at;
    x.trail_end = x.trail + XF_TRAIL;
    prog->egress(&x, p->phv);
    p->packet_length = x.packet_length;

    if (x.clone_session) {
        const xf_replicas *s = clone_session(e, x.clone_session, p->packet_length);
        xf_packet *c = s ? copy(e, p, p->data, p->length, 1) : NULL;
        if (c) {
            prog->reset_metadata(c->phv);
            prog->copy_fields(x.clone_list, c->phv, p->phv);
            prog->set_instance(c->phv, XF_CLONE_E2E);
            send_clones(e, c, s);
        }
    }
    if (x.egress_spec == e->drop_port) {
        count_drop(e, XF_DROP_EGRESS, port->number, p->packet_length);
        packet_free(p);
        return 0;
    }
    headers = prog->deparse(&x, p->phv, p->data);
    if (p->data > p->stamp_at) p->stamp = NULL; /* headers have been written over it */
    length = headers + p->length;
    p->data -= headers;
    p->recirculate_list = x.recirculate_list;
    if (!x.recirculate_list && length > x.truncate) length = x.truncate;
    p->length = length;
    if (length > XF_MAX_FRAME) {
        count_drop(e, XF_DROP_OVERSIZE, port->number, length);
        packet_free(p);
        return 0;
    }
    return 1;
}

/* ---- time ---- */

static void arrive(xf_engine *e, xf_port *port) {
    xf_packet *p = list_pop(&port->flight);
    events_set(&e->events, EV_ID(EV_ARRIVE, port->number), port->flight.head ? port->flight.head->time : XF_NEVER);
    if (port->number != e->cpu_port) {
        list_push(&e->out, p);
    } else if (e->cpu_count >= CPU_FRAMES) {
        count_drop(e, XF_DROP_CPU_QUEUE, port->number, p->length);
        packet_free(p);
    } else {
        list_push(&e->cpu, p);
        e->cpu_count++;
        e->pending |= XF_PENDING_CPU;
    }
}

static void loop_back(xf_engine *e, xf_port *port) {
    xf_packet *p = list_pop(&port->loop), *old = NULL;
    xf_packet before;
    events_set(&e->events, EV_ID(EV_LOOP, port->number), port->loop.head ? port->loop.head->time : XF_NEVER);
    /* The same frame goes round again with a new PHV; the old one is there until its fields have been taken over. */
    before = *p;
    p->phv = NULL;
    if (packet_headroom(p) < e->program->header_bytes || !packet_open(p, e->phvs)) {
        p->phv = before.phv;
        old = p;
        p = copy(e, old, old->data, old->length, 0);
    } else {
        p = moved(e, p);
    }
    if (p) {
        p->ingress_length = before.length;
        ingress_pass(e, p, 0, XF_RECIRCULATED, before.phv, before.recirculate_list);
    }
    if (old) packet_free(old);
    else packet_close(&before);
}

/* Runs every event due by `until`; those at `until` itself only if `inclusive`. */
static void run(xf_engine *e, xf_ps until, int inclusive) {
    if (e->catch_up && until > e->now + e->catch_up) e->now = until - e->catch_up;
    for (;;) {
        xf_ps at = events_first(&e->events);
        uint32_t id;
        xf_port *port;
        if (at == XF_NEVER || at > until || (at == until && !inclusive)) break;
        id = e->events.heap[0].id;
        port = e->ports[id % XF_MAX_PORTS];
        if (at > e->now) e->now = at; /* an event set for a time already past runs now */
        events_set(&e->events, id, XF_NEVER);
        switch (id / XF_MAX_PORTS) {
        case EV_EXPIRE: port_expire(e, port); break;
        case EV_LOOP: loop_back(e, port); break;
        case EV_ARRIVE: arrive(e, port); break;
        default: port_start(e, port); break;
        }
    }
    e->now = until;
}

static xf_ps clock_in(xf_engine *e, uint64_t now) {
    xf_ps at;
    if (!e->based) {
        uint32_t i, c;
        e->based = 1;
        e->base = now;
        /* Pauses written before the first time was known. */
        for (i = 0; i < XF_MAX_PORTS; i++) {
            xf_port *p = e->ports[i];
            if (!p || !p->paused) continue;
            for (c = 0; c < XF_CLASSES; c++)
                if (p->paused & (1u << c)) p->queues[c].since = now;
            port_schedule_expiry(e, p);
        }
    }
    at = ps_of(e, now);
    return at > e->now ? at : e->now;
}

/* The packet to take through ingress: `own` itself if it is of this engine's pool and its program's headers have room,
 * else a copy of the frame. NULL (and `own` still there) without memory. */
static xf_packet *opened(xf_engine *e, xf_packet *own, const uint8_t *frame, uint32_t length) {
    xf_packet *p = own;
    if (!own || own->pool != e->pool || packet_headroom(own) < e->program->header_bytes) {
        p = packet_new(e->pool, length);
        if (!p) return NULL;
        memcpy(p->data, frame, length);
    } else {
        packet_reset(p);
    }
    if (!packet_open(p, e->phvs)) {
        if (p != own) packet_free(p);
        return NULL;
    }
    if (own && p != own) packet_free(own);
    return p;
}

/* `own`, if not NULL, is a packet that holds the frame and is given away. */
static void receive(xf_engine *e, uint32_t port, xf_packet *own, const uint8_t *frame, uint32_t length) {
    xf_port *p = port < XF_MAX_PORTS ? e->ports[port] : NULL;
    enum xf_drop reason;
    xf_packet *packet;
    if (!p || !p->exists) reason = XF_DROP_RX_NO_PORT;
    else if (!p->up) reason = XF_DROP_PORT_DOWN;
    else if (loss_takes(&p->loss[1])) reason = XF_DROP_LINK_LOSS;
    else if (!e->program) reason = XF_DROP_NO_PROGRAM;
    else if (length > XF_MAX_FRAME) reason = XF_DROP_OVERSIZE;
    else if (!(packet = opened(e, own, frame, length))) reason = XF_DROP_NO_MEMORY;
    else {
        p->rx_packets++;
        p->rx_bytes += length;
        packet->ingress_length = length;
        ingress_pass(e, packet, port, XF_NORMAL, NULL, 0);
        return;
    }
    count_drop(e, reason, port, length);
    if (own) packet_free(own);
}

int xf_rx(xf_engine *e, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now) {
    engine_lock(e);
    run(e, clock_in(e, now), 0);
    receive(e, port, NULL, frame, length);
    engine_unlock(e);
    return 0;
}

int xf_rx_burst(xf_engine *e, const xf_frame *frames, uint32_t count, uint64_t now) {
    uint32_t i;
    engine_lock(e);
    run(e, clock_in(e, now), 0);
    for (i = 0; i < count; i++) receive(e, frames[i].port, NULL, frames[i].data, frames[i].length);
    engine_unlock(e);
    return 0;
}

static uint32_t hand_out(xf_engine *e, xf_list *from, xf_list *held, xf_frame *out, uint32_t room) {
    uint32_t n = 0;
    list_free(held);
    while (n < room && from->head) {
        xf_packet *p = list_pop(from);
        out[n].data = p->data;
        out[n].length = p->length;
        out[n].port = p->port;
        /* The first whole nanosecond at which the last bit is there. */
        out[n].time = ns_of(e, p->time + PS_PER_NS - 1);
        list_push(held, p);
        n++;
    }
    return n;
}

void xf_catch_up(xf_engine *e, uint64_t limit) {
    engine_lock(e);
    e->catch_up = limit > XF_NEVER / PS_PER_NS / 2 ? 0 : limit * PS_PER_NS;
    engine_unlock(e);
}

int xf_poll(xf_engine *e, uint64_t now, xf_frame *out, uint32_t room) {
    uint32_t n;
    engine_lock(e);
    run(e, clock_in(e, now), 1);
    if (e->next_sweep != XF_NEVER && now >= e->next_sweep) engine_sweep(e);
    n = hand_out(e, &e->out, &e->held, out, room);
    engine_unlock(e);
    return (int)n;
}

int xf_cpu_take(xf_engine *e, xf_frame *out, uint32_t room) {
    uint32_t n;
    engine_lock(e);
    n = hand_out(e, &e->cpu, &e->cpu_held, out, room);
    e->cpu_count -= n;
    if (!e->cpu_count) e->pending &= ~(uint32_t)XF_PENDING_CPU;
    engine_unlock(e);
    return (int)n;
}

uint64_t engine_deadline(const xf_engine *e) {
    uint64_t at = XF_NEVER;
    xf_ps first = e->out.head ? e->out.head->time : events_first(&e->events);
    if (first != XF_NEVER) at = ns_of(e, first + PS_PER_NS - 1);
    return e->next_sweep < at ? e->next_sweep : at;
}

uint64_t xf_deadline(xf_engine *e) {
    uint64_t at;
    engine_lock(e);
    at = engine_deadline(e);
    engine_unlock(e);
    return at;
}

void engine_rx(xf_engine *e, uint32_t port, xf_packet *p, uint64_t now) {
    run(e, clock_in(e, now), 0);
    receive(e, port, p, p->data, p->length);
}

void engine_look_ahead(const xf_engine *e, xf_ahead *out) {
    uint32_t id, ready, cls = XF_CLASSES - 1;
    out->packet = NULL;
    out->queue = NULL;
    out->leaves = UINT32_MAX;
    if (!e->events.count) {
        out->port = NULL;
        return;
    }
    id = e->events.heap[0].id;
    out->port = e->ports[id % XF_MAX_PORTS];
    if (id / XF_MAX_PORTS == EV_ARRIVE) {
        out->packet = out->port->flight.head;
        out->leaves = out->port->number;
    } else if (id / XF_MAX_PORTS == EV_START) {
        ready = out->port->nonempty & ~(uint32_t)out->port->paused;
        if (!ready) return;
        while (!(ready & (1u << cls))) cls--;
        out->cls = cls;
        out->queue = &out->port->queues[cls];
        out->packet = out->queue->packets.head;
    }
}

void engine_poll(xf_engine *e, uint64_t now, xf_list *out) {
    run(e, clock_in(e, now), 1);
    if (e->next_sweep != XF_NEVER && now >= e->next_sweep) engine_sweep(e);
    *out = e->out;
    e->out.head = e->out.tail = NULL;
}

uint32_t xf_pending(xf_engine *e) { return e->pending; }

void xf_time(xf_engine *e, uint64_t *now) {
    engine_lock(e);
    *now = ns_of(e, e->now);
    engine_unlock(e);
}
