-- One statement per file: MySQL commits each by itself, so a file of several
-- could be left half done by a crash, and IF NOT EXISTS covers a crash between
-- the statement and the note that it was run.
--
-- The primary key is the only index, on purpose: whoever changes several
-- products locks them in the order of the index that is read, and with one
-- index that is the same order for all.

-- +goose Up
CREATE TABLE IF NOT EXISTS products (
    id         BIGINT        NOT NULL AUTO_INCREMENT,
    name       VARCHAR(200)  NOT NULL,
    brand      VARCHAR(200)  NOT NULL,
    price      BIGINT        NOT NULL COMMENT 'smallest currency unit',
    stock      BIGINT        NOT NULL,
    image_url  VARCHAR(2000) NOT NULL,
    line       VARCHAR(32)   NOT NULL COMMENT 'empty: sold to every line',
    created_at BIGINT        NOT NULL COMMENT 'Unix ms',
    PRIMARY KEY (id),
    CONSTRAINT products_stock CHECK (stock >= 0)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS products;
