-- +goose Up
CREATE TABLE order_items (
    order_id   TEXT    NOT NULL REFERENCES orders (id),
    seq        INTEGER NOT NULL, -- as the buyer listed them
    product_id INTEGER NOT NULL REFERENCES products (id),
    name       TEXT    NOT NULL, -- this and the next: as they were when ordered
    image_url  TEXT    NOT NULL,
    quantity   INTEGER NOT NULL CHECK (quantity > 0),
    unit_price INTEGER NOT NULL,
    PRIMARY KEY (order_id, seq)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE order_items;
