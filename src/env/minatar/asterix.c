/* SPDX-License-Identifier: MIT */
/*
 * MinAtar/Asterix. The player moves in all four directions on rows 1 to 8. Enemies and treasures come in from one side
 * and drive to the other, at most one in a row. A treasure that the player meets is reward 1; an enemy ends the
 * episode. The game becomes harder after every 102 steps: things come more often, and every other time they also move
 * faster.
 */
#include "env/minatar/minatar.h"

enum { PLAYER, ENEMY, TRAIL, GOLD, CHANNELS };
enum { ROWS = 8, FIRST_ROW = 1, START = 5 /* the player's row and column */ };
enum { FIRST_SPAWN_INTERVAL = 10, FIRST_MOVE_INTERVAL = 5, RAMP_INTERVAL = 102 }; /* steps */

/* What drives in a row. */
typedef struct thing {
    int32_t is_there, x, direction, is_gold;
} thing;

typedef struct asterix {
    int32_t x, y; /* the player */
    int32_t spawn_interval, spawn_wait;
    int32_t move_interval, move_wait;
    int32_t ramp_wait;
    thing things[ROWS]; /* from the top down */
} asterix;

static const gpur_minatar_range ranges[] = {
    GPUR_MINATAR_RANGE(asterix, x, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(asterix, y, FIRST_ROW, FIRST_ROW + ROWS - 1),
    GPUR_MINATAR_RANGE(asterix, spawn_interval, 1, FIRST_SPAWN_INTERVAL),
    GPUR_MINATAR_RANGE(asterix, spawn_wait, 0, FIRST_SPAWN_INTERVAL),
    GPUR_MINATAR_RANGE(asterix, move_interval, 1, FIRST_MOVE_INTERVAL),
    GPUR_MINATAR_RANGE(asterix, move_wait, 0, FIRST_MOVE_INTERVAL),
    GPUR_MINATAR_RANGE(asterix, ramp_wait, 1, RAMP_INTERVAL),
    GPUR_MINATAR_STRUCTS_RANGE(asterix, things, ROWS, is_there, 0, 1),
    GPUR_MINATAR_STRUCTS_RANGE(asterix, things, ROWS, x, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_STRUCTS_RANGE(asterix, things, ROWS, direction, -1, 1),
    GPUR_MINATAR_STRUCTS_RANGE(asterix, things, ROWS, is_gold, 0, 1),
};

static void begin(gpur_minatar *env)
{
    asterix *const a = env->board;
    a->x = a->y = START;
    a->spawn_interval = a->spawn_wait = FIRST_SPAWN_INTERVAL;
    a->move_interval = a->move_wait = FIRST_MOVE_INTERVAL;
    a->ramp_wait = RAMP_INTERVAL;
}

/* Puts a thing into a random row of those that have none. One of three is a treasure. */
static void spawn(gpur_minatar *env, asterix *a)
{
    const int from_left = gpur_minatar_chance(env, 1.0 / 2.0);
    const int is_gold = gpur_minatar_chance(env, 1.0 / 3.0);
    thing *empty[ROWS];
    int32_t count = 0;
    for (int i = 0; i < ROWS; i++)
        if (!a->things[i].is_there)
            empty[count++] = &a->things[i];
    if (count > 0)
        *empty[gpur_minatar_draw(env, count)] = (thing){
            .is_there = 1, .x = from_left ? 0 : GPUR_MINATAR_LAST, .direction = from_left ? 1 : -1, .is_gold = is_gold};
}

static void move_player(asterix *a, gpur_minatar_action action)
{
    const int32_t dx = (action == GPUR_MINATAR_RIGHT) - (action == GPUR_MINATAR_LEFT);
    const int32_t dy = (action == GPUR_MINATAR_DOWN) - (action == GPUR_MINATAR_UP);
    a->x = gpur_minatar_clamp(a->x + dx, 0, GPUR_MINATAR_LAST);
    a->y = gpur_minatar_clamp(a->y + dy, FIRST_ROW, FIRST_ROW + ROWS - 1);
}

/* If the player is on the cell of the thing in this row. */
static float meet(gpur_minatar *env, asterix *a, int32_t row)
{
    thing *const t = &a->things[row];
    if (!t->is_there || t->x != a->x || FIRST_ROW + row != a->y)
        return 0.0f;
    if (!t->is_gold) {
        env->episode.is_over = 1;
        return 0.0f;
    }
    *t = (thing){0};
    return 1.0f;
}

static float move_things(gpur_minatar *env, asterix *a)
{
    float reward = 0.0f;
    for (int32_t row = 0; row < ROWS; row++) {
        thing *const t = &a->things[row];
        t->x += t->direction;
        if (!gpur_minatar_is_column(t->x))
            *t = (thing){0};
        reward += meet(env, a, row);
    }
    return reward;
}

static void become_harder(gpur_minatar *env, asterix *a)
{
    if (a->spawn_interval == 1 && a->move_interval == 1)
        return;
    if (--a->ramp_wait > 0)
        return;
    a->move_interval -= a->move_interval > 1 && env->episode.ramp % 2 == 1;
    a->spawn_interval -= a->spawn_interval > 1;
    env->episode.ramp++;
    a->ramp_wait = RAMP_INTERVAL;
}

static float step(gpur_minatar *env, gpur_minatar_action action)
{
    asterix *const a = env->board;
    float reward = 0.0f;
    if (a->spawn_wait == 0) {
        spawn(env, a);
        a->spawn_wait = a->spawn_interval;
    }
    move_player(a, action);
    for (int32_t row = 0; row < ROWS; row++)
        reward += meet(env, a, row);
    if (a->move_wait == 0) {
        a->move_wait = a->move_interval;
        reward += move_things(env, a);
    }
    a->spawn_wait--;
    a->move_wait--;
    if (gpur_minatar_ramps(env))
        become_harder(env, a);
    return reward;
}

static void show(const gpur_minatar *env, const gpur_minatar_view *view)
{
    const asterix *const a = env->board;
    gpur_minatar_mark(view, a->x, a->y, PLAYER);
    for (int32_t row = 0; row < ROWS; row++) {
        const thing *const t = &a->things[row];
        if (!t->is_there)
            continue;
        gpur_minatar_mark(view, t->x, FIRST_ROW + row, t->is_gold ? GOLD : ENEMY);
        gpur_minatar_mark_trail(view, t->x, FIRST_ROW + row, t->direction, TRAIL);
    }
}

static const gpur_minatar_game game = {
    .name = "MinAtar/Asterix",
    .channels = CHANNELS,
    .minimal_count = 5,
    .minimal_actions = {GPUR_MINATAR_STAY, GPUR_MINATAR_LEFT, GPUR_MINATAR_UP, GPUR_MINATAR_RIGHT, GPUR_MINATAR_DOWN},
    .board_bytes = sizeof(asterix),
    .ranges = ranges,
    .range_count = sizeof ranges / sizeof *ranges,
    .begin = begin,
    .step = step,
    .show = show,
};

GPUR_MINATAR_TYPE(gpur_env_asterix, "MinAtar/Asterix", game);
