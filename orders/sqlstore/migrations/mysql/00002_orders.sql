-- +goose Up
CREATE TABLE IF NOT EXISTS orders (
    id           VARCHAR(36)  NOT NULL COMMENT 'UUIDv7: close to insertion order',
    token_id     VARCHAR(128) NOT NULL COMMENT 'one order per admission',
    visitor      VARCHAR(255) NOT NULL,
    line         VARCHAR(32)  NOT NULL,
    state        VARCHAR(16)  NOT NULL,
    pieces       BIGINT       NOT NULL COMMENT 'sum of the items'' quantities',
    discount     BIGINT       NOT NULL,
    total        BIGINT       NOT NULL,
    created_at   BIGINT       NOT NULL COMMENT 'Unix ms',
    cancelled_at BIGINT       NULL COMMENT 'Unix ms',
    PRIMARY KEY (id),
    UNIQUE KEY orders_token (token_id),
    KEY orders_unpaid (state, created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS orders;
