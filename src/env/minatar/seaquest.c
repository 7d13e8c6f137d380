/* SPDX-License-Identifier: MIT */
/*
 * MinAtar/Seaquest. The player moves a submarine on rows 0 to 8, and fires in the direction in which it last moved
 * sideways. Fish, enemy submarines, which fire too, and divers come in from both sides on rows 1 to 8. A bullet that
 * hits a fish or a submarine is reward 1. The player picks up divers, up to 6, by being where they are.
 *
 * Below row 0 the oxygen falls by 1 a step; row 0 is the surface. To come there with no diver ends the episode. With
 * fewer than 6 it costs one of them; with 6 it costs all, and the reward is the number of cells of the oxygen's gauge.
 * Either gives full oxygen and makes the game harder: enemies come more often, and every other time they also move
 * faster. The episode also ends where an enemy or its bullet meets the player, and when the oxygen is used up.
 *
 * As in the package, 6 delivered divers leave the count at -1, not at 0, so that the next time at the surface costs
 * nothing, and a submarine that is hit while it moves still fires in that step.
 */
#include "env/minatar/minatar.h"

#include <string.h>

enum {
    FRONT,
    BACK,
    OWN_BULLET,
    TRAIL,
    ENEMY_BULLET,
    FISH,
    SUBMARINE,
    OXYGEN,
    DIVERS, /* that the player carries */
    DIVER,  /* that swims */
    CHANNELS
};
enum { START_COLUMN = 5, LOWEST_ROW = 8, FIRST_ROW = 1 /* of fish and submarines */, ROWS = 8 };
enum { MAX_OXYGEN = 200, MAX_DIVERS = 6, GAUGE = 10 /* cells of the full gauge of oxygen */ };
enum { FIRST_ENEMY_INTERVAL = 20, DIVER_INTERVAL = 30 }; /* steps from one that comes in to the next */
enum { OWN_FIRE_WAIT = 5, ENEMY_FIRE_WAIT = 10 };        /* steps from one shot to the next; between two shots */
enum { FIRST_MOVE_WAIT = 5, LAST_MOVE_WAIT = 2, DIVER_MOVE_WAIT = 5 }; /* steps between two moves */

/* What moves sideways. */
typedef struct swimmer {
    int32_t x, y, direction;
    int32_t move_wait, fire_wait; /* steps until it moves, until it fires; bullets move in every step */
} swimmer;

/*
 * In the order in which they came. The longest list is that of enemy bullets: one lives at most 10 steps, a submarine
 * fires every 11 steps and lives at most 60, and one comes per step at most, so at most 70 have fired in the last 10.
 */
enum { CAPACITY = 80 };
typedef struct swimmers {
    int32_t count;
    swimmer items[CAPACITY];
} swimmers;

typedef struct seaquest {
    int32_t x, y, direction; /* the player */
    int32_t oxygen, divers;
    int32_t is_at_surface; /* since the step before */
    int32_t fire_wait;
    int32_t enemy_interval, enemy_wait, diver_wait, move_wait; /* move_wait: of enemies that now come or move */
    swimmers own_bullets, enemy_bullets, fish, submarines, swimming_divers;
} seaquest;

#define LIST_RANGES(list)                                                                                              \
    GPUR_MINATAR_RANGE(seaquest, list.count, 0, CAPACITY),                                                             \
        GPUR_MINATAR_STRUCTS_RANGE(seaquest, list.items, CAPACITY, x, 0, GPUR_MINATAR_LAST),                           \
        GPUR_MINATAR_STRUCTS_RANGE(seaquest, list.items, CAPACITY, y, 0, LOWEST_ROW),                                  \
        GPUR_MINATAR_STRUCTS_RANGE(seaquest, list.items, CAPACITY, direction, -1, 1),                                  \
        GPUR_MINATAR_STRUCTS_RANGE(seaquest, list.items, CAPACITY, move_wait, 0, FIRST_MOVE_WAIT),                     \
        GPUR_MINATAR_STRUCTS_RANGE(seaquest, list.items, CAPACITY, fire_wait, 0, ENEMY_FIRE_WAIT)

static const gpur_minatar_range ranges[] = {
    GPUR_MINATAR_RANGE(seaquest, x, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(seaquest, y, 0, LOWEST_ROW),
    GPUR_MINATAR_RANGE(seaquest, direction, -1, 1),
    GPUR_MINATAR_RANGE(seaquest, oxygen, -1, MAX_OXYGEN),
    GPUR_MINATAR_RANGE(seaquest, divers, -1000000000, MAX_DIVERS),
    GPUR_MINATAR_RANGE(seaquest, is_at_surface, 0, 1),
    GPUR_MINATAR_RANGE(seaquest, fire_wait, 0, OWN_FIRE_WAIT),
    GPUR_MINATAR_RANGE(seaquest, enemy_interval, 1, FIRST_ENEMY_INTERVAL),
    GPUR_MINATAR_RANGE(seaquest, enemy_wait, 0, FIRST_ENEMY_INTERVAL),
    GPUR_MINATAR_RANGE(seaquest, diver_wait, 0, DIVER_INTERVAL),
    GPUR_MINATAR_RANGE(seaquest, move_wait, LAST_MOVE_WAIT, FIRST_MOVE_WAIT),
    LIST_RANGES(own_bullets),
    LIST_RANGES(enemy_bullets),
    LIST_RANGES(fish),
    LIST_RANGES(submarines),
    LIST_RANGES(swimming_divers),
};

static void begin(gpur_minatar *env)
{
    seaquest *const s = env->board;
    s->x = START_COLUMN;
    s->direction = -1;
    s->oxygen = MAX_OXYGEN;
    s->is_at_surface = 1;
    s->enemy_interval = s->enemy_wait = FIRST_ENEMY_INTERVAL;
    s->diver_wait = DIVER_INTERVAL;
    s->move_wait = FIRST_MOVE_WAIT;
}

/* A list that is full, which no play leads to, takes no more. */
static void add(swimmers *list, swimmer one)
{
    if (list->count < CAPACITY)
        list->items[list->count++] = one;
}

/* Those behind it move up. */
static void take_out(swimmers *list, int32_t index)
{
    list->count--;
    memmove(&list->items[index], &list->items[index + 1], (size_t)(list->count - index) * sizeof *list->items);
    list->items[list->count] = (swimmer){0};
}

/* Takes out the first one that is on the cell. Returns 0 if none is. */
static int take_out_at(swimmers *list, int32_t x, int32_t y)
{
    for (int32_t i = 0; i < list->count; i++)
        if (list->items[i].x == x && list->items[i].y == y) {
            take_out(list, i);
            return 1;
        }
    return 0;
}

/* Moves it by a cell. Returns 0, and takes it out, if that leads out of the board. */
static int swim(swimmers *list, int32_t index)
{
    swimmer *const one = &list->items[index];
    one->x += one->direction;
    if (gpur_minatar_is_column(one->x))
        return 1;
    take_out(list, index);
    return 0;
}

static int is_at_player(const seaquest *s, const swimmer *one)
{
    return one->x == s->x && one->y == s->y;
}

/* Whether an enemy in the row swims the other way: then no other one comes into it. */
static int is_opposed(const swimmers *list, const swimmer *one)
{
    for (int32_t i = 0; i < list->count; i++)
        if (list->items[i].y == one->y && list->items[i].direction != one->direction)
            return 1;
    return 0;
}

static swimmer at_edge(int from_left, int32_t row, int32_t move_wait)
{
    return (swimmer){.x = from_left ? 0 : GPUR_MINATAR_LAST,
                     .y = FIRST_ROW + row,
                     .direction = from_left ? 1 : -1,
                     .move_wait = move_wait};
}

/* One of three is a submarine. */
static void spawn_enemy(gpur_minatar *env, seaquest *s)
{
    const int from_left = gpur_minatar_chance(env, 1.0 / 2.0);
    const int is_submarine = gpur_minatar_chance(env, 1.0 / 3.0);
    swimmer one = at_edge(from_left, gpur_minatar_draw(env, ROWS), s->move_wait);
    if (is_opposed(&s->submarines, &one) || is_opposed(&s->fish, &one))
        return;
    one.fire_wait = is_submarine ? ENEMY_FIRE_WAIT : 0;
    add(is_submarine ? &s->submarines : &s->fish, one);
}

static void spawn(gpur_minatar *env, seaquest *s)
{
    if (s->enemy_wait == 0) {
        spawn_enemy(env, s);
        s->enemy_wait = s->enemy_interval;
    }
    if (s->diver_wait == 0) {
        const int from_left = gpur_minatar_chance(env, 1.0 / 2.0);
        add(&s->swimming_divers, at_edge(from_left, gpur_minatar_draw(env, ROWS), DIVER_MOVE_WAIT));
        s->diver_wait = DIVER_INTERVAL;
    }
}

static void move_player(seaquest *s, gpur_minatar_action action)
{
    const int32_t dx = (action == GPUR_MINATAR_RIGHT) - (action == GPUR_MINATAR_LEFT);
    const int32_t dy = (action == GPUR_MINATAR_DOWN) - (action == GPUR_MINATAR_UP);
    if (action == GPUR_MINATAR_FIRE && s->fire_wait == 0) {
        add(&s->own_bullets, (swimmer){.x = s->x, .y = s->y, .direction = s->direction});
        s->fire_wait = OWN_FIRE_WAIT;
    }
    s->x = gpur_minatar_clamp(s->x + dx, 0, GPUR_MINATAR_LAST);
    s->y = gpur_minatar_clamp(s->y + dy, 0, LOWEST_ROW);
    s->direction = dx ? dx : s->direction;
}

/* The functions below go through a list from the newest to the oldest. */

static float move_own_bullets(seaquest *s)
{
    float reward = 0.0f;
    for (int32_t i = s->own_bullets.count - 1; i >= 0; i--) {
        if (!swim(&s->own_bullets, i))
            continue;
        const swimmer bullet = s->own_bullets.items[i];
        if (!take_out_at(&s->fish, bullet.x, bullet.y) && !take_out_at(&s->submarines, bullet.x, bullet.y))
            continue;
        take_out(&s->own_bullets, i);
        reward += 1.0f;
    }
    return reward;
}

/* Picks up the diver if it is where the player is and there is room for it. */
static int is_picked_up(seaquest *s, int32_t index)
{
    if (s->divers >= MAX_DIVERS || !is_at_player(s, &s->swimming_divers.items[index]))
        return 0;
    take_out(&s->swimming_divers, index);
    s->divers++;
    return 1;
}

static void move_divers(seaquest *s)
{
    for (int32_t i = s->swimming_divers.count - 1; i >= 0; i--) {
        if (is_picked_up(s, i))
            continue;
        swimmer *const diver = &s->swimming_divers.items[i];
        if (diver->move_wait > 0) {
            diver->move_wait--;
            continue;
        }
        diver->move_wait = DIVER_MOVE_WAIT;
        if (swim(&s->swimming_divers, i))
            is_picked_up(s, i);
    }
}

/* Moves one fish or submarine. Returns 1 if it swims into a bullet of the player's: both are gone. */
static int move_enemy(gpur_minatar *env, seaquest *s, swimmers *list, int32_t index)
{
    swimmer *const one = &list->items[index];
    env->episode.is_over |= is_at_player(s, one);
    if (one->move_wait > 0) {
        one->move_wait--;
        return 0;
    }
    one->move_wait = s->move_wait;
    if (!swim(list, index))
        return 0;
    if (is_at_player(s, one)) {
        env->episode.is_over = 1;
        return 0;
    }
    if (!take_out_at(&s->own_bullets, one->x, one->y))
        return 0;
    take_out(list, index);
    return 1;
}

static float move_fish(gpur_minatar *env, seaquest *s)
{
    float reward = 0.0f;
    for (int32_t i = s->fish.count - 1; i >= 0; i--)
        reward += (float)move_enemy(env, s, &s->fish, i);
    return reward;
}

/* A submarine fires from where it is after its move, even if that move ends it; not if it leads out of the board. */
static float move_submarines(gpur_minatar *env, seaquest *s)
{
    float reward = 0.0f;
    for (int32_t i = s->submarines.count - 1; i >= 0; i--) {
        swimmer *const one = &s->submarines.items[i];
        swimmer muzzle = *one;
        muzzle.x += one->move_wait == 0 ? one->direction : 0;
        muzzle.move_wait = muzzle.fire_wait = 0;
        const int fires = one->fire_wait == 0;
        one->fire_wait = fires ? ENEMY_FIRE_WAIT : one->fire_wait - 1;
        reward += (float)move_enemy(env, s, &s->submarines, i);
        if (fires && gpur_minatar_is_column(muzzle.x))
            add(&s->enemy_bullets, muzzle);
    }
    return reward;
}

static void move_enemy_bullets(gpur_minatar *env, seaquest *s)
{
    for (int32_t i = s->enemy_bullets.count - 1; i >= 0; i--) {
        const swimmer *const bullet = &s->enemy_bullets.items[i];
        env->episode.is_over |= is_at_player(s, bullet);
        if (swim(&s->enemy_bullets, i))
            env->episode.is_over |= is_at_player(s, bullet);
    }
}

static void become_harder(gpur_minatar *env, seaquest *s)
{
    if (s->enemy_interval == 1 && s->move_wait == LAST_MOVE_WAIT)
        return;
    s->move_wait -= s->move_wait > LAST_MOVE_WAIT && env->episode.ramp % 2 == 1;
    s->enemy_interval -= s->enemy_interval > 1;
    env->episode.ramp++;
}

static float surface(gpur_minatar *env, seaquest *s)
{
    float reward = 0.0f;
    s->is_at_surface = 1;
    if (s->divers == 0) {
        env->episode.is_over = 1;
        return 0.0f;
    }
    if (s->divers == MAX_DIVERS) {
        reward = (float)(s->oxygen * GAUGE / MAX_OXYGEN);
        s->divers = 0;
    }
    s->divers--;
    s->oxygen = MAX_OXYGEN;
    if (gpur_minatar_ramps(env))
        become_harder(env, s);
    return reward;
}

static float breathe(gpur_minatar *env, seaquest *s)
{
    env->episode.is_over |= s->oxygen <= 0;
    if (s->y == 0)
        return s->is_at_surface ? 0.0f : surface(env, s);
    s->oxygen--;
    s->is_at_surface = 0;
    return 0.0f;
}

static float step(gpur_minatar *env, gpur_minatar_action action)
{
    seaquest *const s = env->board;
    spawn(env, s);
    move_player(s, action);
    float reward = move_own_bullets(s);
    move_divers(s);
    reward += move_submarines(env, s);
    move_enemy_bullets(env, s);
    reward += move_fish(env, s);
    s->enemy_wait -= s->enemy_wait > 0;
    s->diver_wait -= s->diver_wait > 0;
    s->fire_wait -= s->fire_wait > 0;
    return reward + breathe(env, s);
}

static void show_list(const gpur_minatar_view *view, const swimmers *list, int32_t channel, int has_trail)
{
    for (int32_t i = 0; i < list->count; i++) {
        const swimmer *const one = &list->items[i];
        gpur_minatar_mark(view, one->x, one->y, channel);
        if (has_trail)
            gpur_minatar_mark_trail(view, one->x, one->y, one->direction, TRAIL);
    }
}

static void show(const gpur_minatar *env, const gpur_minatar_view *view)
{
    const seaquest *const s = env->board;
    gpur_minatar_mark(view, s->x, s->y, FRONT);
    gpur_minatar_mark_trail(view, s->x, s->y, s->direction, BACK);
    for (int32_t x = 0; x < s->oxygen * GAUGE / MAX_OXYGEN; x++)
        gpur_minatar_mark(view, x, GPUR_MINATAR_LAST, OXYGEN);
    for (int32_t x = GPUR_MINATAR_LAST - s->divers; x < GPUR_MINATAR_LAST; x++)
        gpur_minatar_mark(view, x, GPUR_MINATAR_LAST, DIVERS);
    show_list(view, &s->own_bullets, OWN_BULLET, 0);
    show_list(view, &s->enemy_bullets, ENEMY_BULLET, 0);
    show_list(view, &s->fish, FISH, 1);
    show_list(view, &s->submarines, SUBMARINE, 1);
    show_list(view, &s->swimming_divers, DIVER, 1);
}

static const gpur_minatar_game game = {
    .name = "MinAtar/Seaquest",
    .channels = CHANNELS,
    .minimal_count = GPUR_MINATAR_ACTIONS,
    .minimal_actions = {GPUR_MINATAR_STAY, GPUR_MINATAR_LEFT, GPUR_MINATAR_UP, GPUR_MINATAR_RIGHT, GPUR_MINATAR_DOWN,
                        GPUR_MINATAR_FIRE},
    .board_bytes = sizeof(seaquest),
    .ranges = ranges,
    .range_count = sizeof ranges / sizeof *ranges,
    .begin = begin,
    .step = step,
    .show = show,
};

GPUR_MINATAR_TYPE(gpur_env_seaquest, "MinAtar/Seaquest", game);
