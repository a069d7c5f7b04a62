-- product_id is no foreign key on purpose: checking one takes a shared lock on
-- the product's row, and two orders that both hold it can then neither take
-- the exclusive one to lower the stock. Products are never deleted.

-- +goose Up
CREATE TABLE IF NOT EXISTS order_items (
    order_id   VARCHAR(36)   NOT NULL,
    seq        SMALLINT      NOT NULL COMMENT 'as the buyer listed them',
    product_id BIGINT        NOT NULL,
    name       VARCHAR(200)  NOT NULL COMMENT 'this and the next: as they were when ordered',
    image_url  VARCHAR(2000) NOT NULL,
    quantity   BIGINT        NOT NULL,
    unit_price BIGINT        NOT NULL,
    PRIMARY KEY (order_id, seq),
    CONSTRAINT order_items_order FOREIGN KEY (order_id) REFERENCES orders (id),
    CONSTRAINT order_items_quantity CHECK (quantity > 0)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS order_items;
