/* SPDX-License-Identifier: MIT */
/*
 * MinAtar/SpaceInvaders. The player moves a cannon along the bottom row and fires upward; a hit alien is reward 1. The
 * aliens march together to one side; when one of them is at the edge, they all come a row down and turn back. The fewer
 * they are, the faster they march. The lowest one in the column nearest to the cannon fires. When all are gone, as many
 * new ones come, which march faster than those before. The episode ends when an alien or a bullet reaches the cannon,
 * or an alien would go below the bottom row.
 */
#include "env/minatar/minatar.h"

#include <stdlib.h>
#include <string.h>

enum { CANNON, ALIEN, ALIEN_LEFT, ALIEN_RIGHT, OWN_BULLET, ENEMY_BULLET, CHANNELS };
enum { START_COLUMN = 5, WAVE_ROWS = 4, WAVE_ROW = 0xfc /* columns 2 to 7 */ };
enum { OWN_FIRE_WAIT = 5, ENEMY_FIRE_WAIT = 10 };          /* steps from one shot to the next */
enum { FIRST_MOVE_INTERVAL = 12, LAST_MOVE_INTERVAL = 6 }; /* steps from one move of the aliens to the next, at most */

/* Aliens and bullets are rows of bits, from above. */
typedef struct space_invaders {
    int32_t x;         /* of the cannon */
    int32_t direction; /* of the aliens: -1 or 1 */
    int32_t move_interval, move_wait;
    int32_t fire_wait, enemy_fire_wait;
    int32_t aliens[GPUR_MINATAR_SIDE];
    int32_t own_bullets[GPUR_MINATAR_SIDE];
    int32_t enemy_bullets[GPUR_MINATAR_SIDE];
} space_invaders;

static const gpur_minatar_range ranges[] = {
    GPUR_MINATAR_RANGE(space_invaders, x, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(space_invaders, direction, -1, 1),
    GPUR_MINATAR_RANGE(space_invaders, move_interval, LAST_MOVE_INTERVAL, FIRST_MOVE_INTERVAL),
    GPUR_MINATAR_RANGE(space_invaders, move_wait, 0, FIRST_MOVE_INTERVAL),
    GPUR_MINATAR_RANGE(space_invaders, fire_wait, 0, OWN_FIRE_WAIT),
    GPUR_MINATAR_RANGE(space_invaders, enemy_fire_wait, 0, ENEMY_FIRE_WAIT),
    GPUR_MINATAR_ARRAY_RANGE(space_invaders, aliens, GPUR_MINATAR_SIDE, 0, GPUR_MINATAR_FULL_ROW),
    GPUR_MINATAR_ARRAY_RANGE(space_invaders, own_bullets, GPUR_MINATAR_SIDE, 0, GPUR_MINATAR_FULL_ROW),
    GPUR_MINATAR_ARRAY_RANGE(space_invaders, enemy_bullets, GPUR_MINATAR_SIDE, 0, GPUR_MINATAR_FULL_ROW),
};

static void place_wave(space_invaders *s)
{
    for (int i = 0; i < WAVE_ROWS; i++)
        s->aliens[i] = WAVE_ROW;
}

static void begin(gpur_minatar *env)
{
    space_invaders *const s = env->board;
    s->x = START_COLUMN;
    s->direction = -1;
    s->move_interval = s->move_wait = FIRST_MOVE_INTERVAL;
    s->enemy_fire_wait = ENEMY_FIRE_WAIT;
    place_wave(s);
}

static int32_t count_aliens(const space_invaders *s)
{
    int32_t count = 0;
    for (int i = 0; i < GPUR_MINATAR_SIDE; i++)
        count += __builtin_popcount((unsigned)s->aliens[i]);
    return count;
}

/* Bits of the columns that have an alien. */
static int32_t columns_of_aliens(const space_invaders *s)
{
    int32_t columns = 0;
    for (int i = 0; i < GPUR_MINATAR_SIDE; i++)
        columns |= s->aliens[i];
    return columns;
}

/* All rows come one down. Returns the row that was the lowest. */
static int32_t shift_down(int32_t *rows)
{
    const int32_t lowest = rows[GPUR_MINATAR_LAST];
    memmove(rows + 1, rows, GPUR_MINATAR_LAST * sizeof *rows);
    rows[0] = 0;
    return lowest;
}

static void shift_up(int32_t *rows)
{
    memmove(rows, rows + 1, GPUR_MINATAR_LAST * sizeof *rows);
    rows[GPUR_MINATAR_LAST] = 0;
}

static void move_player(space_invaders *s, gpur_minatar_action action)
{
    const int32_t dx = (action == GPUR_MINATAR_RIGHT) - (action == GPUR_MINATAR_LEFT);
    if (action == GPUR_MINATAR_FIRE && s->fire_wait == 0) {
        s->own_bullets[GPUR_MINATAR_LAST] |= 1 << s->x;
        s->fire_wait = OWN_FIRE_WAIT;
    }
    s->x = gpur_minatar_clamp(s->x + dx, 0, GPUR_MINATAR_LAST);
}

/* Returns 1 if an alien is on the cannon, or would go below the bottom row: it is then shown in the top row. */
static int march(space_invaders *s)
{
    const int32_t edge = s->direction < 0 ? 1 : 1 << GPUR_MINATAR_LAST, aliens = count_aliens(s);
    int is_over = 0;
    s->move_wait = aliens < s->move_interval ? aliens : s->move_interval;
    if (columns_of_aliens(s) & edge) {
        s->direction = -s->direction;
        s->aliens[0] = shift_down(s->aliens);
        is_over = s->aliens[0] != 0;
    } else {
        for (int i = 0; i < GPUR_MINATAR_SIDE; i++)
            s->aliens[i] = s->direction < 0 ? s->aliens[i] >> 1 : s->aliens[i] << 1;
    }
    return is_over || (s->aliens[GPUR_MINATAR_LAST] >> s->x & 1);
}

/* Of two columns that are equally near, the left one. */
static int32_t nearest_column(const space_invaders *s)
{
    const int32_t columns = columns_of_aliens(s);
    int32_t nearest = -1;
    for (int32_t x = 0; x < GPUR_MINATAR_SIDE; x++)
        if (columns >> x & 1 && (nearest < 0 || abs(x - s->x) < abs(nearest - s->x)))
            nearest = x;
    return nearest;
}

static void fire_back(space_invaders *s)
{
    const int32_t column = nearest_column(s);
    int32_t y = GPUR_MINATAR_LAST;
    if (column < 0) /* there is no alien, which no play leads to */
        return;
    while (!(s->aliens[y] >> column & 1))
        y--;
    s->enemy_bullets[y] |= 1 << column;
}

static float hit_aliens(space_invaders *s)
{
    const int32_t before = count_aliens(s);
    for (int i = 0; i < GPUR_MINATAR_SIDE; i++) {
        const int32_t hit = s->aliens[i] & s->own_bullets[i];
        s->aliens[i] &= ~hit;
        s->own_bullets[i] &= ~hit;
    }
    return (float)(before - count_aliens(s));
}

static void send_wave(gpur_minatar *env, space_invaders *s)
{
    if (s->move_interval > LAST_MOVE_INTERVAL && gpur_minatar_ramps(env)) {
        s->move_interval--;
        env->episode.ramp++;
    }
    place_wave(s);
}

static float step(gpur_minatar *env, gpur_minatar_action action)
{
    space_invaders *const s = env->board;
    move_player(s, action);
    shift_up(s->own_bullets);
    shift_down(s->enemy_bullets);
    env->episode.is_over |= (s->enemy_bullets[GPUR_MINATAR_LAST] | s->aliens[GPUR_MINATAR_LAST]) >> s->x & 1;
    if (s->move_wait == 0)
        env->episode.is_over |= march(s);
    if (s->enemy_fire_wait == 0) {
        s->enemy_fire_wait = ENEMY_FIRE_WAIT;
        fire_back(s);
    }
    const float reward = hit_aliens(s);
    s->fire_wait -= s->fire_wait > 0;
    s->move_wait--;
    s->enemy_fire_wait--;
    if (count_aliens(s) == 0)
        send_wave(env, s);
    return reward;
}

static void show(const gpur_minatar *env, const gpur_minatar_view *view)
{
    const space_invaders *const s = env->board;
    gpur_minatar_mark(view, s->x, GPUR_MINATAR_LAST, CANNON);
    for (int32_t y = 0; y < GPUR_MINATAR_SIDE; y++) {
        gpur_minatar_mark_row(view, s->aliens[y], y, ALIEN);
        gpur_minatar_mark_row(view, s->aliens[y], y, s->direction < 0 ? ALIEN_LEFT : ALIEN_RIGHT);
        gpur_minatar_mark_row(view, s->own_bullets[y], y, OWN_BULLET);
        gpur_minatar_mark_row(view, s->enemy_bullets[y], y, ENEMY_BULLET);
    }
}

static const gpur_minatar_game game = {
    .name = "MinAtar/SpaceInvaders",
    .channels = CHANNELS,
    .minimal_count = 4,
    .minimal_actions = {GPUR_MINATAR_STAY, GPUR_MINATAR_LEFT, GPUR_MINATAR_RIGHT, GPUR_MINATAR_FIRE},
    .board_bytes = sizeof(space_invaders),
    .ranges = ranges,
    .range_count = sizeof ranges / sizeof *ranges,
    .begin = begin,
    .step = step,
    .show = show,
};

GPUR_MINATAR_TYPE(gpur_env_space_invaders, "MinAtar/SpaceInvaders", game);
