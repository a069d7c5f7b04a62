-- +goose Up
CREATE TABLE products (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    brand      TEXT    NOT NULL,
    price      INTEGER NOT NULL, -- smallest currency unit
    stock      INTEGER NOT NULL CHECK (stock >= 0),
    image_url  TEXT    NOT NULL,
    line       TEXT    NOT NULL, -- empty: sold to every line
    created_at INTEGER NOT NULL  -- Unix ms
) STRICT;

-- +goose Down
DROP TABLE products;
