-- +goose Up
CREATE TABLE orders (
    id           TEXT    NOT NULL PRIMARY KEY, -- UUIDv7: close to insertion order
    token_id     TEXT    NOT NULL UNIQUE,      -- one order per admission
    visitor      TEXT    NOT NULL,
    line         TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    pieces       INTEGER NOT NULL,             -- sum of the items' quantities
    discount     INTEGER NOT NULL,
    total        INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,             -- Unix ms
    cancelled_at INTEGER                       -- Unix ms
) STRICT, WITHOUT ROWID;
CREATE INDEX orders_unpaid ON orders (state, created_at);

-- +goose Down
DROP TABLE orders;
