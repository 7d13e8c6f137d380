/* SPDX-License-Identifier: MIT */
/*
 * MinAtar/Breakout. The player moves a paddle along the bottom row and keeps a ball in play, which moves diagonally,
 * one cell a step. Rows 1 to 3 begin full of bricks. A brick that the ball hits is gone: reward 1, and the ball turns
 * back. A step without a brick must come before it can break the next one. When all bricks are gone, they are filled in
 * again as soon as the ball comes down to the paddle's row. The episode ends when the ball gets past the paddle.
 */
#include "env/minatar/minatar.h"

enum { PADDLE, BALL, TRAIL, BRICK, CHANNELS };
enum { FIRST_BRICKS = 1, BRICK_ROWS = 3 }; /* rows of bricks */
enum { PADDLE_START = 4, BALL_START = 3 }; /* the paddle's column, the ball's row */

typedef struct breakout {
    int32_t paddle;             /* its column */
    int32_t x, y;               /* the ball */
    int32_t dx, dy;             /* its direction: -1 or 1 each */
    int32_t last_x, last_y;     /* where it was */
    int32_t is_in_bricks;       /* 1: the last step led it to a brick */
    int32_t bricks[BRICK_ROWS]; /* a bit for each */
} breakout;

static const gpur_minatar_range ranges[] = {
    GPUR_MINATAR_RANGE(breakout, paddle, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(breakout, x, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(breakout, y, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(breakout, dx, -1, 1),
    GPUR_MINATAR_RANGE(breakout, dy, -1, 1),
    GPUR_MINATAR_RANGE(breakout, last_x, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(breakout, last_y, 0, GPUR_MINATAR_LAST),
    GPUR_MINATAR_RANGE(breakout, is_in_bricks, 0, 1),
    GPUR_MINATAR_ARRAY_RANGE(breakout, bricks, BRICK_ROWS, 0, GPUR_MINATAR_FULL_ROW),
};

static void fill_bricks(breakout *b)
{
    for (int32_t row = 0; row < BRICK_ROWS; row++)
        b->bricks[row] = GPUR_MINATAR_FULL_ROW;
}

static int has_bricks(const breakout *b)
{
    int32_t all = 0;
    for (int32_t row = 0; row < BRICK_ROWS; row++)
        all |= b->bricks[row];
    return all != 0;
}

static int is_brick(const breakout *b, int32_t x, int32_t y)
{
    const int32_t row = y - FIRST_BRICKS;
    return row >= 0 && row < BRICK_ROWS && (b->bricks[row] >> x & 1);
}

static void begin(gpur_minatar *env)
{
    breakout *const b = env->board;
    const int from_right = gpur_minatar_draw(env, 2);
    b->paddle = PADDLE_START;
    b->x = b->last_x = from_right ? GPUR_MINATAR_LAST : 0;
    b->y = b->last_y = BALL_START;
    b->dx = from_right ? -1 : 1;
    b->dy = 1;
    fill_bricks(b);
}

/* The ball comes down to row 9, in column `x`. A paddle below the cell that it leaves sends it up; one below the cell
 * that it comes to sends it back where it came from. */
static int is_returned(breakout *b, int32_t x)
{
    if (b->x != b->paddle && x != b->paddle)
        return 0;
    b->dx = b->x == b->paddle ? b->dx : -b->dx;
    b->dy = -b->dy;
    return 1;
}

static float move_ball(gpur_minatar *env, breakout *b)
{
    const int32_t next_x = b->x + b->dx, x = gpur_minatar_clamp(next_x, 0, GPUR_MINATAR_LAST);
    int32_t y = b->y + b->dy;
    float reward = 0.0f;
    if (x != next_x)
        b->dx = -b->dx;
    const int reaches_brick = is_brick(b, x, y);
    if (y < 0) {
        y = 0;
        b->dy = -b->dy;
    } else if (reaches_brick && !b->is_in_bricks) {
        reward = 1.0f;
        b->bricks[y - FIRST_BRICKS] &= ~(1 << x);
        y = b->y;
        b->dy = -b->dy;
    } else if (y == GPUR_MINATAR_LAST) {
        if (!has_bricks(b))
            fill_bricks(b);
        if (is_returned(b, x))
            y = b->y;
        else
            env->episode.is_over = 1;
    }
    b->is_in_bricks = reaches_brick;
    b->last_x = b->x, b->last_y = b->y;
    b->x = x, b->y = y;
    return reward;
}

static float step(gpur_minatar *env, gpur_minatar_action action)
{
    breakout *const b = env->board;
    const int32_t move = (action == GPUR_MINATAR_RIGHT) - (action == GPUR_MINATAR_LEFT);
    b->paddle = gpur_minatar_clamp(b->paddle + move, 0, GPUR_MINATAR_LAST);
    return move_ball(env, b);
}

static void show(const gpur_minatar *env, const gpur_minatar_view *view)
{
    const breakout *const b = env->board;
    gpur_minatar_mark(view, b->x, b->y, BALL);
    gpur_minatar_mark(view, b->paddle, GPUR_MINATAR_LAST, PADDLE);
    gpur_minatar_mark(view, b->last_x, b->last_y, TRAIL);
    for (int32_t row = 0; row < BRICK_ROWS; row++)
        gpur_minatar_mark_row(view, b->bricks[row], FIRST_BRICKS + row, BRICK);
}

static const gpur_minatar_game game = {
    .name = "MinAtar/Breakout",
    .channels = CHANNELS,
    .minimal_count = 3,
    .minimal_actions = {GPUR_MINATAR_STAY, GPUR_MINATAR_LEFT, GPUR_MINATAR_RIGHT},
    .board_bytes = sizeof(breakout),
    .ranges = ranges,
    .range_count = sizeof ranges / sizeof *ranges,
    .begin = begin,
    .step = step,
    .show = show,
};

GPUR_MINATAR_TYPE(gpur_env_breakout, "MinAtar/Breakout", game);
