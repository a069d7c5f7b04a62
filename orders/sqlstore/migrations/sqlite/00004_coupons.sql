-- +goose Up
CREATE TABLE coupons (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    quantity   INTEGER NOT NULL,
    issued     INTEGER NOT NULL CHECK (issued >= 0 AND issued <= quantity),
    discount   INTEGER NOT NULL,
    line       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE coupons;
