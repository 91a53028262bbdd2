
CREATE TABLE shop (shop_id int PRIMARY KEY, shop_name text NOT NULL);
CREATE TABLE sale (sale_id int PRIMARY KEY, shop_id int REFERENCES shop, sold_on date, sale_amount numeric(8,2));
INSERT INTO shop SELECT i, 'shop ' || i FROM generate_series(1, 4) i;
INSERT INTO sale SELECT i, 1 + i % 4, date '2024-01-01' + i, (i * 37 % 101)::numeric FROM generate_series(1, 200) i;
