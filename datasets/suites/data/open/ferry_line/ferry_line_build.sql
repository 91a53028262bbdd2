-- ferry_line: a small island ferry operator. Deterministic build, PostgreSQL 14, no extensions.
-- All clock times are kept in UTC; money is in euro.

CREATE TYPE hull_class AS ENUM ('ropax', 'fast_craft', 'landing_craft');
CREATE TYPE booking_state AS ENUM ('boarded', 'no_show', 'cancelled', 'refunded', 'pending');

CREATE TABLE ports (
    port_id integer PRIMARY KEY,
    port_code text NOT NULL UNIQUE,
    port_name text NOT NULL,
    island_group text NOT NULL,
    berth_count integer NOT NULL,
    has_breakwater boolean NOT NULL,
    opened_on date
);

CREATE TABLE ferry_routes (
    route_id integer PRIMARY KEY,
    route_code text NOT NULL UNIQUE,
    origin_port_id integer NOT NULL REFERENCES ports (port_id),
    destination_port_id integer NOT NULL REFERENCES ports (port_id),
    distance_nm numeric(6,1) NOT NULL,
    crossing_minutes integer NOT NULL,
    is_lifeline boolean NOT NULL,
    licence_terms jsonb
);

CREATE TABLE vessels (
    vessel_id integer PRIMARY KEY,
    vessel_name text NOT NULL,
    vessel_class hull_class NOT NULL,
    passenger_capacity integer NOT NULL,
    deck_lane_metres numeric(6,1),
    built_year integer,
    fuel_profile jsonb NOT NULL,
    retired_on date
);

CREATE TABLE customers (
    customer_id integer PRIMARY KEY,
    full_name text NOT NULL,
    email_address text NOT NULL,
    home_port_id integer REFERENCES ports (port_id),
    loyalty_tier text,
    joined_on date NOT NULL,
    marketing_consent boolean
);

CREATE TABLE sailings (
    sailing_id integer PRIMARY KEY,
    route_id integer NOT NULL REFERENCES ferry_routes (route_id),
    vessel_id integer NOT NULL REFERENCES vessels (vessel_id),
    service_date date NOT NULL,
    scheduled_departure timestamptz NOT NULL,
    actual_departure timestamptz,
    sailing_status text NOT NULL,
    crew_count integer
);

CREATE TABLE fare_bookings (
    booking_id integer PRIMARY KEY,
    sailing_id integer NOT NULL REFERENCES sailings (sailing_id),
    customer_id integer NOT NULL REFERENCES customers (customer_id),
    booked_on date NOT NULL,
    booking_channel text,
    party_size integer NOT NULL CHECK (party_size > 0),
    fare_amount numeric(9,2) NOT NULL,
    discount_share numeric(4,2),
    booking_status booking_state NOT NULL,
    fare_tags text[]
);

CREATE TABLE vehicle_tickets (
    ticket_id integer PRIMARY KEY,
    booking_id integer NOT NULL REFERENCES fare_bookings (booking_id),
    vehicle_kind text NOT NULL,
    length_text text,
    deck_fee numeric(8,2) NOT NULL
);

CREATE TABLE weather_readings (
    reading_id integer PRIMARY KEY,
    port_id integer NOT NULL REFERENCES ports (port_id),
    observed_at timestamptz NOT NULL,
    wind_speed numeric(6,2),
    wind_unit text NOT NULL,
    wave_height_m numeric(4,2),
    sensor_ok boolean NOT NULL
);

CREATE TABLE service_incidents (
    incident_id integer PRIMARY KEY,
    sailing_id integer NOT NULL REFERENCES sailings (sailing_id),
    incident_kind text NOT NULL,
    severity_level integer NOT NULL CHECK (severity_level BETWEEN 1 AND 5),
    delay_minutes integer,
    compensation_paid numeric(8,2),
    reported_at timestamptz NOT NULL
);

CREATE FUNCTION departure_delay_minutes(planned_at timestamptz, left_at timestamptz) RETURNS numeric
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT ROUND(EXTRACT(EPOCH FROM (left_at - planned_at))::numeric / 60, 1) $$;

INSERT INTO ports VALUES
    (1, 'BRQ', 'Brindle Quay', 'Mainland', 5, true, '1961-05-01'),
    (2, 'ARD', 'Port Ardwen', 'Mainland', 3, true, '1974-03-15'),
    (3, 'SKR', 'Skerrin', 'Inner Isles', 2, true, '1968-06-10'),
    (4, 'TLB', 'Tallow Bay', 'Inner Isles', 2, false, '1983-09-01'),
    (5, 'GAN', 'Gannet Holm', 'Outer Isles', 1, false, NULL),
    (6, 'LUN', 'Lunnavoe', 'Outer Isles', 1, false, '1992-04-20'),
    (7, 'OSP', 'Osprey Landing', 'Outer Isles', 1, true, '2004-07-01'),
    (8, 'FEN', 'Fennick', 'Inner Isles', 1, false, NULL),
    (9, 'MRH', 'Marrow Head', 'Mainland', 2, true, '2011-05-05');

INSERT INTO ferry_routes VALUES
    (1, 'BRQ-SKR', 1, 3, 8.5, 45, false, '{"licence": "open", "fare_cap_eur": null}'),
    (2, 'BRQ-TLB', 1, 4, 11.0, 55, true, '{"licence": "public", "fare_cap_eur": 14}'),
    (3, 'ARD-GAN', 2, 5, 23.4, 115, true, '{"licence": "public", "fare_cap_eur": 22}'),
    (4, 'ARD-LUN', 2, 6, 27.8, 135, true, '{"licence": "public", "fare_cap_eur": 25}'),
    (5, 'SKR-TLB', 3, 4, 4.2, 25, false, NULL),
    (6, 'SKR-FEN', 3, 8, 6.0, 35, true, '{"licence": "public", "fare_cap_eur": 9}'),
    (7, 'TLB-GAN', 4, 5, 14.6, 75, false, '{"licence": "open", "fare_cap_eur": null}'),
    (8, 'GAN-LUN', 5, 6, 9.1, 50, true, '{"licence": "public", "fare_cap_eur": 12}'),
    (9, 'GAN-OSP', 5, 7, 12.3, 65, true, '{"licence": "public", "fare_cap_eur": 15}'),
    (10, 'LUN-OSP', 6, 7, 7.7, 40, false, NULL),
    (11, 'BRQ-MRH', 1, 9, 18.9, 70, false, '{"licence": "open", "fare_cap_eur": null}'),
    (12, 'LUN-BRQ', 6, 1, 33.5, 160, true, '{"licence": "public", "fare_cap_eur": 31}');

INSERT INTO vessels VALUES
    (1, 'Kittiwake', 'ropax', 36, 30.0, 1998, '{"fuel": "gas_oil", "litres_per_hour": 62}', NULL),
    (2, 'Guillemot', 'ropax', 44, 36.0, 2006, '{"fuel": "gas_oil", "litres_per_hour": 71}', NULL),
    (3, 'Petrel', 'fast_craft', 32, NULL, 2015, '{"fuel": "gas_oil", "litres_per_hour": 118}', NULL),
    (4, 'Razorbill', 'landing_craft', 24, 26.0, 1987, '{"fuel": "gas_oil", "litres_per_hour": 55}', '2024-10-15'),
    (5, 'Shearwater', 'fast_craft', 36, NULL, 2018, '{"fuel": "hvo", "litres_per_hour": 104}', NULL),
    (6, 'Dunlin', 'ropax', 40, 32.0, 2011, '{"fuel": "gas_oil", "litres_per_hour": 68}', '2025-04-30'),
    (7, 'Tern', 'landing_craft', 28, 22.0, 1994, '{"fuel": "gas_oil", "litres_per_hour": 49}', NULL),
    (8, 'Eider', 'ropax', 50, 40.0, 2020, '{"fuel": "hybrid", "litres_per_hour": 41}', NULL),
    (9, 'Whimbrel', 'fast_craft', 30, NULL, 2009, '{"fuel": "gas_oil", "litres_per_hour": 110}', '2024-02-29');

-- 170 customers, and twelve who registered a second time with the same address spelled differently
INSERT INTO customers
SELECT i,
       (ARRAY['Ansel','Britta','Corin','Dagny','Edwin','Freya','Gorm','Hedda','Ivo','Jorun','Kester','Liv','Magnus','Nerys','Otto','Petra','Runa'])[1 + (i * 5) % 17]
       || ' ' ||
       (ARRAY['Aldmoor','Brack','Cairnby','Drever','Eastvik','Flett','Gorie','Harcus','Isbister','Kirkness'])[1 + (i * 7 + i / 10) % 10],
       'guest' || lpad(i::text, 3, '0') || '@' || (ARRAY['islemail.example','northpost.example','quay.example'])[1 + i % 3],
       CASE WHEN i % 11 = 0 THEN NULL ELSE 1 + (i * 4 + i / 9) % 9 END,
       CASE WHEN i % 4 = 0 THEN NULL WHEN i % 9 = 1 THEN 'gold' WHEN i % 9 = 5 THEN 'Gold' WHEN i % 3 = 0 THEN 'silver' ELSE 'bronze' END,
       DATE '2017-02-01' + (i * 379) % 2400,
       CASE WHEN i % 13 = 0 THEN NULL ELSE i % 3 <> 0 END
FROM generate_series(1, 170) AS i;

INSERT INTO customers
SELECT 170 + k, c.full_name,
       CASE WHEN k % 2 = 0 THEN upper(c.email_address) ELSE ' ' || initcap(c.email_address) END,
       c.home_port_id, NULL, DATE '2023-06-01' + k * 11, c.marketing_consent
FROM generate_series(1, 12) AS k
JOIN customers AS c ON c.customer_id = k * 3 + 1;

-- wind and waves at the six origin ports, every fourth day, some days twice
INSERT INTO weather_readings
SELECT row_number() OVER (ORDER BY g.day_no, g.port_no, g.slot_no), g.port_no,
       (TIMESTAMP '2023-07-01 06:20' + g.day_no * INTERVAL '1 day' + g.slot_no * INTERVAL '9 hours') AT TIME ZONE 'UTC',
       CASE WHEN g.noise % 67 = 5 THEN NULL
            WHEN g.noise % 53 = 7 THEN 99.90
            WHEN (g.port_no * 3 + g.day_no) % 5 < 2 THEN ROUND(g.knots / 1.944, 2)
            ELSE ROUND(g.knots, 2) END,
       CASE WHEN (g.port_no * 3 + g.day_no) % 5 < 2 THEN 'm/s' ELSE 'kn' END,
       CASE WHEN g.noise % 6 = 1 THEN NULL ELSE ROUND(g.knots * 0.085 + (g.noise % 7) * 0.06, 2) END,
       NOT (g.noise % 53 = 7 OR g.noise % 31 = 3)
FROM (
    SELECT p AS port_no, d AS day_no, k AS slot_no,
           (p * 977 + d * 131 + k * 61) % 1009 AS noise,
           (5 + 41 * power(((p * 137 + d * 29 + (d / 4) * (d / 4) * 3 + k * 11) % 100) / 99.0, 2)
              + CASE WHEN d BETWEEN 107 AND 274 OR d >= 473 THEN 7 ELSE 0 END
              + CASE WHEN p >= 5 THEN 4 ELSE 0 END)::numeric AS knots
    FROM generate_series(1, 6) AS p
    CROSS JOIN generate_series(0, 548, 4) AS d
    CROSS JOIN generate_series(0, 1) AS k
    WHERE k = 0 OR (p + d / 4) % 3 = 0
) AS g;

-- sailings from July 2023 to December 2024
INSERT INTO sailings
SELECT x.i, x.route_no,
       CASE WHEN (x.v = 9 AND x.day_no > 243) OR (x.v = 4 AND x.day_no > 471) THEN 8 ELSE x.v END,
       DATE '2023-07-01' + x.day_no,
       (TIMESTAMP '2023-07-01 06:00' + x.day_no * INTERVAL '1 day' + ((x.i * 5) % 11) * INTERVAL '75 minutes') AT TIME ZONE 'UTC',
       CASE WHEN x.y < 8 OR (x.i * 17) % 103 < 5 THEN NULL
            ELSE (TIMESTAMP '2023-07-01 06:00' + x.day_no * INTERVAL '1 day' + ((x.i * 5) % 11) * INTERVAL '75 minutes'
                  + x.late * INTERVAL '1 minute') AT TIME ZONE 'UTC' END,
       CASE WHEN x.y < 5 THEN (ARRAY['Cancelled','cancelled','CANCELLED'])[1 + x.i % 3]
            WHEN x.y < 8 THEN (ARRAY['suspended','Suspended'])[1 + x.i % 2]
            WHEN x.y < 13 THEN (ARRAY['diverted','Diverted'])[1 + x.i % 2]
            ELSE (ARRAY['completed','completed','Completed','completed','COMPLETED'])[1 + x.i % 5] END,
       CASE WHEN x.i % 19 = 0 THEN NULL ELSE 3 + x.i % 5 END
FROM (
    SELECT q.*,
           CASE WHEN q.z < 6 THEN -1 - q.z % 4
                WHEN q.z < 34 THEN q.z % 4
                WHEN q.z < 62 THEN 2 + q.z % 8
                WHEN q.z < 66 THEN 10
                WHEN q.z < 80 THEN 11 + q.z % 9
                WHEN q.z < 89 THEN 21 + (q.z * 3) % 22
                WHEN q.z < 91 THEN 45
                ELSE 46 + (q.z * 13) % 110 END
           + CASE WHEN q.v IN (3, 7) AND q.i % 3 = 0 THEN 6 ELSE 0 END AS late
    FROM (
        SELECT r.*, 1 + (r.route_no * 2 + (r.i * 5) % 4) % 9 AS v,
               (r.i * 7919) % 101 AS z, (r.i * 6151) % 97 AS y
        FROM (
            SELECT i,
                   (ARRAY[1,2,3,1,4,2,5,6,3,7,1,8,9,4,2,10,6,11,3,12,8,1,9])[1 + (i * 13) % 23] AS route_no,
                   CASE WHEN i % 5 = 0 THEN 336 + (i * 17) % 92
                        WHEN i % 2 = 0 THEN ((i * 263) % 549) - ((i * 263) % 549) % 4
                        ELSE (i * 263) % 549 END AS day_no
            FROM generate_series(1, 500) AS i
        ) AS r
    ) AS q
) AS x;

-- strong winds keep boats in port
UPDATE sailings AS s
SET sailing_status = CASE WHEN s.sailing_id % 4 = 0 THEN 'Suspended' WHEN s.sailing_id % 2 = 0 THEN 'cancelled' ELSE 'Cancelled' END,
    actual_departure = NULL
FROM ferry_routes AS r
WHERE r.route_id = s.route_id
  AND s.sailing_id % 7 IN (0, 2, 3, 5)
  AND EXISTS (
      SELECT 1 FROM weather_readings AS w
      WHERE w.port_id = r.origin_port_id AND w.sensor_ok
        AND (w.observed_at AT TIME ZONE 'UTC')::date = s.service_date
        AND CASE WHEN w.wind_unit = 'm/s' THEN w.wind_speed * 1.944 ELSE w.wind_speed END >= 33.0 + (s.sailing_id % 5));

INSERT INTO fare_bookings
SELECT y.j, y.sailing_no,
       CASE WHEN y.j % 3 = 0 THEN 1 + (y.j * 7 + y.j / 30) % 34
            WHEN y.j % 17 = 2 THEN 171 + (y.j * 5) % 12
            ELSE 1 + (y.j * 89) % 170 END,
       s.service_date - (2 + (y.j * 5 + y.j / 7) % 64),
       CASE WHEN y.j % 41 = 0 THEN NULL ELSE (ARRAY['web','app','web','desk','Web','agent','app','web','Desk '])[1 + (y.j * 7) % 9] END,
       y.party,
       ROUND(y.party * (4.5 + r.distance_nm * 0.42 + (y.j % 7) * 0.35), 2),
       CASE (y.j * 37 + y.j / 9) % 10 WHEN 0 THEN 0.10 WHEN 1 THEN 0.25 WHEN 2 THEN 0.00 WHEN 3 THEN 0.15 WHEN 4 THEN 0.50 WHEN 5 THEN 0.10 ELSE NULL END,
       (CASE WHEN (y.j * 4441) % 89 < 64 THEN 'boarded' WHEN (y.j * 4441) % 89 < 73 THEN 'no_show'
             WHEN (y.j * 4441) % 89 < 80 THEN 'cancelled' WHEN (y.j * 4441) % 89 < 85 THEN 'refunded' ELSE 'pending' END)::booking_state,
       CASE WHEN y.j % 6 = 0 THEN ARRAY['flex'] WHEN y.j % 10 = 3 THEN ARRAY['senior','pet'] WHEN y.j % 14 = 5 THEN ARRAY['group'] ELSE NULL END
FROM (
    SELECT j,
           CASE WHEN j <= 1250 THEN 1 + (j * 211 + j / 500) % 500
                ELSE 5 * (1 + (j * 29 + (j * j) % 13) % 100) END AS sailing_no,
           CASE WHEN (j * j * 11 + j * 3) % 16 < 13 THEN 1 + (j * j * 11 + j * 3) % 5 ELSE 6 + j % 5 END AS party
    FROM generate_series(1, 1900) AS j
) AS y
JOIN sailings AS s ON s.sailing_id = y.sailing_no
JOIN ferry_routes AS r ON r.route_id = s.route_id;

-- bookings of sailings that did not run were mostly refunded; the desk forgot a few
UPDATE fare_bookings AS b
SET booking_status = 'refunded'
FROM sailings AS s
WHERE s.sailing_id = b.sailing_id AND lower(s.sailing_status) IN ('cancelled', 'suspended')
  AND b.booking_status IN ('boarded', 'no_show') AND b.booking_id % 6 <> 0;

-- nobody boards a full boat: what came in after the last seat stayed pending
UPDATE fare_bookings AS b
SET booking_status = 'pending'
FROM (
    SELECT b2.booking_id, v.passenger_capacity,
           SUM(b2.party_size) OVER (PARTITION BY b2.sailing_id ORDER BY b2.booked_on, b2.booking_id) AS running_party
    FROM fare_bookings AS b2
    JOIN sailings AS s ON s.sailing_id = b2.sailing_id
    JOIN vessels AS v ON v.vessel_id = s.vessel_id
    WHERE b2.booking_status = 'boarded'
) AS t
WHERE t.booking_id = b.booking_id AND t.running_party > t.passenger_capacity;

INSERT INTO vehicle_tickets
SELECT m.k, m.booking_no,
       (ARRAY['car','car','Car','van','motorbike','car','caravan'])[m.kind_no],
       CASE WHEN m.k % 12 = 5 THEN NULL
            WHEN m.k % 4 = 1 THEN (m.metres * 100)::integer || ' cm'
            WHEN m.k % 9 = 2 THEN m.metres::text || 'm'
            ELSE m.metres::text || ' m' END,
       ROUND(5 + m.metres * 2.6 + (m.k % 4) * 0.5, 2)
FROM (
    SELECT k, 1 + (k * 3 + k / 8) % 7 AS kind_no,
           1 + (k * 1013 + (k * k) % 37) % 1900 AS booking_no,
           ROUND((ARRAY[4.3, 4.1, 4.5, 5.6, 2.1, 3.9, 6.7])[1 + (k * 3 + k / 8) % 7]::numeric + (k % 9) * 0.06, 2) AS metres
    FROM generate_series(1, 760) AS k
) AS m
JOIN fare_bookings AS b ON b.booking_id = m.booking_no
JOIN sailings AS s ON s.sailing_id = b.sailing_id
JOIN vessels AS v ON v.vessel_id = s.vessel_id
WHERE v.deck_lane_metres IS NOT NULL;

INSERT INTO service_incidents
SELECT n, s.sailing_id,
       (ARRAY['mechanical','weather','berth','medical','Mechanical','crew','weather','berth'])[1 + (n * 5) % 8],
       1 + (n * n * 3 + n) % 5,
       CASE WHEN n % 5 = 2 THEN NULL ELSE (n * 23) % 95 END,
       CASE WHEN n % 3 = 1 THEN NULL ELSE ROUND(((n * 47) % 380)::numeric * 0.85, 2) END,
       s.scheduled_departure + ((n * 11) % 90) * INTERVAL '1 minute'
FROM generate_series(1, 160) AS n
JOIN sailings AS s ON s.sailing_id = 1 + (n * 173 + n / 20) % 500;
