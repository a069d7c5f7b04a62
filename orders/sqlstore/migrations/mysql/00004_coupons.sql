-- +goose Up
CREATE TABLE IF NOT EXISTS coupons (
    id         BIGINT       NOT NULL AUTO_INCREMENT,
    name       VARCHAR(200) NOT NULL,
    quantity   BIGINT       NOT NULL COMMENT 'how many there are in all',
    issued     BIGINT       NOT NULL COMMENT 'how many have been given',
    discount   BIGINT       NOT NULL COMMENT 'smallest currency unit',
    line       VARCHAR(32)  NOT NULL COMMENT 'empty: given to every line',
    created_at BIGINT       NOT NULL COMMENT 'Unix ms',
    PRIMARY KEY (id),
    CONSTRAINT coupons_issued CHECK (issued >= 0 AND issued <= quantity)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS coupons;
