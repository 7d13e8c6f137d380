/* SPDX-License-Identifier: MIT */
/*
 * MinAtar/Freeway. A chicken walks up and down in column 4, and each of rows 1 to 8 has a car that drives left or right
 * and comes back at the other side. At the top row the reward is 1, all cars get new speeds and directions, and the
 * chicken begins again at the bottom, as it does when it meets a car. It can walk in every third step. A car rests 1
 * to 5 steps between its moves; the channel of its trail tells how many. The episode ends with step 2,501.
 */
#include "env/minatar/minatar.h"

enum { CHICKEN, CAR, TRAIL /* of cars that rest one step */, MAX_REST = 5, CHANNELS = TRAIL + MAX_REST };
enum { CARS = 8, FIRST_ROAD = 1 /* the row of the first car */, CHICKEN_COLUMN = 4 };
enum { WALK_REST = 3, TIME = 2500 }; /* from one step of the chicken's to the next; steps of an episode, less one */

typedef struct car {
    int32_t x, direction; /* -1 or 1 */
    int32_t rest;         /* steps between its moves */
    int32_t wait;         /* steps until its next move */
} car;

typedef struct freeway {
    int32_t chicken;   /* its row */
    int32_t walk_wait; /* steps until it can walk */
    int32_t time_left;
    car cars[CARS]; /* from the top down */
} freeway;

static const gpur_minatar_range ranges[] = {
    GPUR_MINATAR_RANGE(freeway, chicken, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(freeway, walk_wait, 0, WALK_REST),
    GPUR_MINATAR_RANGE(freeway, time_left, -1, TIME),
    GPUR_MINATAR_STRUCTS_RANGE(freeway, cars, CARS, x, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_STRUCTS_RANGE(freeway, cars, CARS, direction, -1, 1),
    GPUR_MINATAR_STRUCTS_RANGE(freeway, cars, CARS, rest, 1, MAX_REST),
    GPUR_MINATAR_STRUCTS_RANGE(freeway, cars, CARS, wait, 0, MAX_REST),
};

static int32_t wrap(int32_t x)
{
    return (x + GPUR_MINATAR_SIDE) % GPUR_MINATAR_SIDE;
}

/* All speeds are drawn first, then all directions. */
static void draw_speeds(gpur_minatar *env, freeway *f)
{
    for (int i = 0; i < CARS; i++)
        f->cars[i].rest = f->cars[i].wait = 1 + gpur_minatar_draw(env, MAX_REST);
    for (int i = 0; i < CARS; i++)
        f->cars[i].direction = gpur_minatar_chance(env, 0.5) ? -1 : 1;
}

static void begin(gpur_minatar *env)
{
    freeway *const f = env->board;
    draw_speeds(env, f);
    f->chicken = GPUR_MINATAR_LAST;
    f->walk_wait = WALK_REST;
    f->time_left = TIME;
}

static void walk(freeway *f, gpur_minatar_action action)
{
    if ((action != GPUR_MINATAR_UP && action != GPUR_MINATAR_DOWN) || f->walk_wait > 0)
        return;
    f->walk_wait = WALK_REST;
    f->chicken = gpur_minatar_clamp(f->chicken + (action == GPUR_MINATAR_UP ? -1 : 1), 0, GPUR_MINATAR_LAST);
}

static void send_back_if_hit(freeway *f, const car *c)
{
    if (c->x == CHICKEN_COLUMN && FIRST_ROAD + (int32_t)(c - f->cars) == f->chicken)
        f->chicken = GPUR_MINATAR_LAST;
}

static void drive(freeway *f, car *c)
{
    send_back_if_hit(f, c);
    if (c->wait > 0) {
        c->wait--;
        return;
    }
    c->wait = c->rest;
    c->x = wrap(c->x + c->direction);
    send_back_if_hit(f, c);
}

static float step(gpur_minatar *env, gpur_minatar_action action)
{
    freeway *const f = env->board;
    float reward = 0.0f;
    walk(f, action);
    if (f->chicken == 0) {
        reward = 1.0f;
        draw_speeds(env, f);
        f->chicken = GPUR_MINATAR_LAST;
    }
    for (int i = 0; i < CARS; i++)
        drive(f, &f->cars[i]);
    f->walk_wait -= f->walk_wait > 0;
    env->episode.is_over = --f->time_left < 0;
    return reward;
}

static void show(const gpur_minatar *env, const gpur_minatar_view *view)
{
    const freeway *const f = env->board;
    gpur_minatar_mark(view, CHICKEN_COLUMN, f->chicken, CHICKEN);
    for (int i = 0; i < CARS; i++) {
        const car *const c = &f->cars[i];
        gpur_minatar_mark(view, c->x, FIRST_ROAD + i, CAR);
        gpur_minatar_mark(view, wrap(c->x - c->direction), FIRST_ROAD + i, TRAIL + c->rest - 1);
    }
}

static const gpur_minatar_game game = {
    .name = "MinAtar/Freeway",
    .channels = CHANNELS,
    .minimal_count = 3,
    .minimal_actions = {GPUR_MINATAR_STAY, GPUR_MINATAR_UP, GPUR_MINATAR_DOWN},
    .board_bytes = sizeof(freeway),
    .ranges = ranges,
    .range_count = sizeof ranges / sizeof *ranges,
    .begin = begin,
    .step = step,
    .show = show,
};

GPUR_MINATAR_TYPE(gpur_env_freeway, "MinAtar/Freeway", game);
