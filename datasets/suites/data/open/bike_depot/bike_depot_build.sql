CREATE TYPE bike_kind AS ENUM ('classic', 'electric', 'cargo');
CREATE TYPE skill_grade AS ENUM ('trainee', 'mechanic', 'senior_mechanic');
CREATE TYPE shift_team AS ENUM ('early', 'late', 'night');
CREATE TYPE priority_level AS ENUM ('low', 'normal', 'high', 'urgent');

CREATE TABLE docking_station (
    station_id integer PRIMARY KEY,
    station_name text NOT NULL,
    district_name text NOT NULL,
    dock_count integer NOT NULL,
    opened_on date NOT NULL,
    closed_on date,
    station_features jsonb NOT NULL
);

CREATE TABLE bike_unit (
    bike_id integer PRIMARY KEY,
    frame_code text NOT NULL UNIQUE,
    bike_model text NOT NULL,
    kind_of_bike bike_kind NOT NULL,
    home_station_id integer REFERENCES docking_station (station_id),
    service_status text NOT NULL,
    purchase_price numeric(8,2) NOT NULL,
    commissioned_on date NOT NULL,
    odometer_reading text,
    battery_cycles integer
);

CREATE TABLE service_technician (
    technician_id integer PRIMARY KEY,
    full_name text NOT NULL,
    grade_held skill_grade NOT NULL,
    team_assigned shift_team NOT NULL,
    hourly_rate numeric(6,2) NOT NULL,
    weekly_contract_hours numeric(4,1) NOT NULL,
    hired_on date NOT NULL,
    left_on date,
    certified_skills text[] NOT NULL
);

CREATE TABLE parts_supplier (
    supplier_id integer PRIMARY KEY,
    supplier_name text NOT NULL,
    promised_lead_days integer NOT NULL,
    is_preferred boolean NOT NULL,
    contact_details jsonb NOT NULL
);

CREATE TABLE spare_part (
    part_id integer PRIMARY KEY,
    part_name text NOT NULL UNIQUE,
    part_category text NOT NULL,
    supplier_id integer NOT NULL REFERENCES parts_supplier (supplier_id),
    unit_cost numeric(8,2) NOT NULL,
    stock_on_hand integer NOT NULL,
    minimum_stock integer NOT NULL,
    pack_size integer NOT NULL,
    is_discontinued boolean NOT NULL,
    shelf_location text
);

CREATE TABLE work_order (
    order_id integer PRIMARY KEY,
    bike_id integer NOT NULL REFERENCES bike_unit (bike_id),
    technician_id integer REFERENCES service_technician (technician_id),
    fault_category text NOT NULL,
    urgency_level priority_level NOT NULL,
    order_status text NOT NULL,
    reported_by text NOT NULL,
    reported_at timestamptz NOT NULL,
    started_at timestamptz,
    completed_at timestamptz,
    labour_minutes integer
);

CREATE TABLE work_order_line (
    line_id integer PRIMARY KEY,
    order_id integer NOT NULL REFERENCES work_order (order_id),
    part_id integer NOT NULL REFERENCES spare_part (part_id),
    quantity_used integer NOT NULL,
    charged_unit_cost numeric(8,2),
    line_state text NOT NULL,
    fitted_on date NOT NULL
);

CREATE TABLE supplier_delivery (
    delivery_id integer PRIMARY KEY,
    supplier_id integer NOT NULL REFERENCES parts_supplier (supplier_id),
    part_id integer NOT NULL REFERENCES spare_part (part_id),
    delivery_status text NOT NULL,
    ordered_on date NOT NULL,
    received_on date,
    quantity_ordered integer NOT NULL,
    quantity_received integer,
    agreed_unit_price numeric(8,2) NOT NULL
);
CREATE UNIQUE INDEX one_draft_per_part ON supplier_delivery (part_id) WHERE delivery_status = 'draft';

CREATE TABLE safety_inspection (
    inspection_id integer PRIMARY KEY,
    bike_id integer NOT NULL REFERENCES bike_unit (bike_id),
    technician_id integer NOT NULL REFERENCES service_technician (technician_id),
    inspected_on date NOT NULL,
    brake_score integer,
    frame_score integer NOT NULL,
    light_score integer NOT NULL,
    tyre_pressure text,
    inspection_outcome text NOT NULL,
    inspector_remarks text
);

CREATE FUNCTION depot_today() RETURNS date LANGUAGE sql IMMUTABLE AS $$ SELECT DATE '2025-06-30' $$;

INSERT INTO docking_station
SELECT i,
       (ARRAY['Mill','Canal','Linden','Market','Foundry','Orchard','Harbour','Castle'])[1 + (i * 3) % 8] || ' '
         || (ARRAY['Street','Square','Gate','Bridge','Park'])[1 + (i - 1) / 8],
       (ARRAY['Old Town','Riverside','Northfield','University','Station Quarter','Hillside'])[1 + (i * i + i / 7) % 6],
       12 + (i * 7) % 19,
       DATE '2019-04-01' + (i * 41) % 1500,
       CASE WHEN i % 13 = 0 THEN DATE '2025-01-10' + i END,
       jsonb_build_object('powered', i % 4 = 0, 'covered', i % 3 = 1, 'kiosk', CASE WHEN i % 5 = 0 THEN 'card' ELSE 'none' END)
FROM generate_series(1, 40) AS i;

INSERT INTO bike_unit
SELECT i,
       'BK-' || lpad((1000 + i)::text, 5, '0'),
       CASE k WHEN 'classic' THEN (ARRAY['Tramp 3','Tramp 7','Citra'])[1 + i % 3]
              WHEN 'electric' THEN (ARRAY['Volta S','Volta L'])[1 + i % 2] ELSE 'Mule' END,
       k,
       CASE WHEN i % 29 = 0 THEN NULL ELSE 1 + (i * 7 + i / 9 + i % 3 * (i % 5)) % 40 END,
       CASE WHEN (i * 11) % 50 IN (0, 1) THEN 'retired'
            WHEN (i * 11) % 50 IN (2, 17) THEN 'lost'
            WHEN (i * 11) % 50 IN (3, 4, 5) THEN 'in_repair'
            WHEN (i * 11) % 50 = 6 THEN 'In_Repair'
            WHEN (i * 11) % 50 IN (7, 8, 9, 10, 11, 12, 13) THEN 'Active'
            ELSE 'active' END,
       CASE k WHEN 'classic' THEN 540 WHEN 'electric' THEN 1380 ELSE 2290 END + (i * 17) % 23 * 9.5,
       c,
       CASE WHEN i % 31 = 0 THEN NULL
            WHEN i % 6 = 1 THEN round((DATE '2025-06-30' - c) * (3 + (i * 7919) % 97 / 8.0) / 1.609344) || ' mi'
            ELSE round((DATE '2025-06-30' - c) * (3 + (i * 7919) % 97 / 8.0)) || ' km' END,
       CASE WHEN k <> 'classic' AND i % 9 <> 0 THEN 40 + (i * 61) % 520 END
FROM (SELECT i,
             (CASE WHEN (i * 3) % 10 < 6 THEN 'classic' WHEN (i * 3) % 10 < 9 THEN 'electric' ELSE 'cargo' END)::bike_kind AS k,
             DATE '2020-03-01' + (i * 137) % 1790 AS c
      FROM generate_series(1, 360) AS i) AS g;

INSERT INTO service_technician
SELECT i,
       (ARRAY['Ada Brink','Tomas Ferro','Ines Kral','Jonas Weil','Priya Nandal','Marek Osten','Lea Vogt','Sami Haddou',
              'Greta Lunde','Owen Tarr','Nora Silk','Pavel Zima','Rita Campos','Bo Lindahl','Yusuf Aydem','Clara Moens'])[i],
       (CASE WHEN i % 5 = 0 THEN 'trainee' WHEN i % 4 = 1 THEN 'senior_mechanic' ELSE 'mechanic' END)::skill_grade,
       (ARRAY['early','late','night']::shift_team[])[1 + (i * i) % 3],
       CASE WHEN i % 5 = 0 THEN 15.50 WHEN i % 4 = 1 THEN 29.00 + i * 0.25 ELSE 21.50 + i * 0.25 END,
       CASE WHEN i % 6 = 0 THEN 20 WHEN i % 7 = 0 THEN 32 ELSE 38.5 END,
       DATE '2017-02-01' + (i * 211) % 2900,
       CASE WHEN i IN (7, 14) THEN DATE '2025-06-22' + i / 2 END,
       CASE WHEN i % 5 = 0 THEN ARRAY['tyres'] WHEN i % 4 = 1 THEN ARRAY['brakes','electrics','frame'] ELSE ARRAY['brakes','wheels'] END
FROM generate_series(1, 16) AS i;

INSERT INTO parts_supplier
SELECT i,
       (ARRAY['Kettenwerk','Northern Cycle Supply','Brakehouse','Volt & Spoke','Rotafix','Lumen Parts','Pedalia','Gripworks','Cargo Bits'])[i],
       (ARRAY[5, 9, 7, 14, 6, 10, 8, 12, 21])[i],
       i IN (1, 3, 5, 7),
       jsonb_build_object('mail', 'orders@supplier' || i || '.example', 'phone', CASE WHEN i % 4 = 0 THEN NULL ELSE '555-01' || (10 + i) END)
FROM generate_series(1, 9) AS i;

INSERT INTO spare_part
SELECT i,
       (ARRAY['Brake pad','Brake cable','Inner tube','Tyre','Chain','Rear wheel','Front light','Battery pack','Saddle','Lock pin'])[1 + (i - 1) % 10]
         || ' ' || (ARRAY['basic','plus','heavy','slim','winter','cargo'])[1 + (i - 1) / 10],
       (ARRAY['brakes','brakes','tyres','tyres','drivetrain','wheels','electrics','electrics','frame','lock'])[1 + (i - 1) % 10],
       1 + (i * 5 + i / 10) % 9,
       (ARRAY[6.40, 3.10, 4.25, 17.90, 13.75, 36.50, 11.60, 94.00, 19.20, 2.35])[1 + (i - 1) % 10] + (i - 1) / 10 * 0.85,
       CASE WHEN i % 10 = 8 THEN (i * 7) % 6 WHEN i % 3 = 0 OR i = 1 THEN (i * 47) % 71 ELSE (i * 47) % 5 END,
       (ARRAY[20, 15, 25, 12, 10, 4, 10, 3, 6, 30])[1 + (i - 1) % 10],
       (ARRAY[10, 10, 20, 4, 5, 1, 6, 1, 2, 25])[1 + (i - 1) % 10],
       i IN (18, 29, 41, 44, 57),
       CASE WHEN i % 12 = 0 THEN NULL ELSE chr(65 + i % 6) || '-' || lpad((i * 3 % 40)::text, 2, '0') END
FROM generate_series(1, 60) AS i;

INSERT INTO work_order
WITH raw AS (
    SELECT i, TIMESTAMPTZ '2024-04-01 05:00:00+00' + make_interval(hours => (i * 7919) % 10900, mins => (i * 37) % 60) AS rep
    FROM generate_series(1, 960) AS i
), numbered AS (
    SELECT i, rep, row_number() OVER (ORDER BY rep)::int AS n,
           (CASE WHEN (i * 53) % 20 < 2 THEN 'urgent' WHEN (i * 53) % 20 < 6 THEN 'high'
                 WHEN (i * 53) % 20 < 16 THEN 'normal' ELSE 'low' END)::priority_level AS urg,
           extract(epoch FROM TIMESTAMPTZ '2025-06-30 00:00:00+00' - rep) / 86400 AS age
    FROM raw
), stated AS (
    SELECT *, CASE WHEN (i * 29) % 33 IN (0, 1) THEN 'cancelled' WHEN (i * 29) % 33 = 2 THEN 'CANCELLED' WHEN (i * 29) % 33 = 3 THEN 'duplicate'
                   WHEN age < 24 AND (i * 17) % 9 < 3 OR age >= 24 AND (i * 71) % 53 = 5 THEN 'open'
                   WHEN age < 24 AND (i * 17) % 9 = 3 THEN 'Open'
                   WHEN age * 24 < 4 + CASE urg WHEN 'urgent' THEN 4 WHEN 'high' THEN 16 WHEN 'normal' THEN 50 ELSE 110 END * (3 + (i * 43) % 29) / 14
                        OR age < 24 AND (i * 17) % 9 = 4 OR age >= 24 AND (i * 71) % 53 = 9 THEN 'in_progress'
                   WHEN (i * 17) % 9 = 5 THEN 'Completed' ELSE 'completed' END AS st,
           CASE urg WHEN 'urgent' THEN 4 WHEN 'high' THEN 16 WHEN 'normal' THEN 50 ELSE 110 END * (3 + (i * 43) % 29) / 14 AS lag_hours
    FROM numbered
)
SELECT n,
       CASE WHEN i % 3 = 0 THEN 1 + (i * 7 + i / 45) % 60 ELSE 1 + (i * 101 + i * i / 7) % 360 END,
       CASE WHEN lower(st) = 'open' AND i % 3 <> 0 OR lower(st) IN ('cancelled', 'duplicate') AND i % 2 = 0 THEN NULL ELSE 1 + (i * 7 + i / 16) % 16 END,
       (ARRAY['brakes','tyres','brakes','wheels','drivetrain','electrics','lock','tyres','frame'])[1 + (i * 13) % 9],
       urg, st,
       (ARRAY['rider_app','street_team','rider_app','call_centre','inspection'])[1 + (i * 23) % 5],
       rep,
       CASE WHEN lower(st) IN ('completed', 'in_progress') THEN rep + make_interval(hours => 1 + lag_hours / 2) END,
       CASE WHEN lower(st) = 'completed' THEN rep + make_interval(hours => 2 + lag_hours, mins => (i * 19) % 60) END,
       CASE WHEN lower(st) = 'completed' AND i % 17 <> 0 THEN 15 + (i * 31) % 13 * 15 END
FROM stated;

INSERT INTO work_order_line
SELECT row_number() OVER (ORDER BY w.order_id, j)::int,
       w.order_id,
       CASE WHEN (w.order_id * 7 + j * 3) % 4 = 0 THEN 1 + (w.order_id * 3 + j) % 8 ELSE 1 + (w.order_id * 13 + j * 29) % 60 END,
       1 + (w.order_id * 5 + j * 7) % 11 / 5,
       CASE WHEN (w.order_id + j * 5) % 9 = 0 THEN NULL
            ELSE round((p.unit_cost * (0.9 + (w.order_id * 3 + j) % 7 * 0.04))::numeric, 2) END,
       CASE WHEN (w.order_id * 11 + j * 17) % 23 = 0 THEN 'returned' WHEN (w.order_id * 11 + j * 17) % 23 IN (1, 2) THEN 'void'
            WHEN (w.order_id * 11 + j * 17) % 23 IN (3, 4, 5) THEN 'Fitted' ELSE 'fitted' END,
       (coalesce(w.completed_at, w.started_at, w.reported_at) AT TIME ZONE 'UTC')::date
FROM work_order AS w
JOIN generate_series(0, 3) AS j ON j <= (w.order_id * 7) % 4 AND (j < 3 OR w.order_id % 5 = 0)
JOIN spare_part AS p ON p.part_id = CASE WHEN (w.order_id * 7 + j * 3) % 4 = 0 THEN 1 + (w.order_id * 3 + j) % 8
                                        ELSE 1 + (w.order_id * 13 + j * 29) % 60 END
WHERE lower(w.order_status) IN ('completed', 'in_progress') OR lower(w.order_status) IN ('cancelled', 'duplicate') AND w.order_id % 3 = 0;

INSERT INTO supplier_delivery
WITH base AS (
    SELECT k, p.part_id, p.unit_cost, p.pack_size,
           CASE WHEN k % 11 = 0 THEN 1 + (p.supplier_id + 3) % 9 ELSE p.supplier_id END AS sup,
           DATE '2024-07-03' + (k * 173) % 359 AS ord
    FROM generate_series(1, 330) AS k
    JOIN spare_part AS p ON p.part_id = 1 + (k * 13 + k / 60) % 60
), stated AS (
    SELECT b.*, ord + s.promised_lead_days - 5 + (k * 37 + k / 9) % 8 + CASE WHEN (k * 7 + k / 5) % (3 + sup % 4) = 0 THEN 5 ELSE 0 END AS rec
    FROM base AS b JOIN parts_supplier AS s ON s.supplier_id = b.sup
), final AS (
    SELECT *, CASE WHEN (k * 19) % 41 IN (0, 1) THEN 'cancelled' WHEN (k * 19) % 41 = 2 THEN 'Cancelled'
                   WHEN rec > DATE '2025-06-29' THEN 'ordered'
                   WHEN (k * 5) % 13 = 0 THEN 'partial' WHEN (k * 5) % 13 IN (1, 2) THEN 'Received' ELSE 'received' END AS st
    FROM stated
)
SELECT row_number() OVER (ORDER BY ord, k)::int, sup, part_id, st, ord,
       CASE WHEN lower(st) IN ('received', 'partial') THEN rec END,
       pack_size * (1 + (k * 3) % 4),
       CASE WHEN lower(st) = 'received' AND k % 10 = 0 THEN NULL
            WHEN lower(st) = 'received' THEN pack_size * (1 + (k * 3) % 4)
            WHEN st = 'partial' THEN pack_size * (1 + (k * 3) % 4) / 2 END,
       round((unit_cost * (0.82 + k % 5 * 0.03))::numeric, 2)
FROM final;

INSERT INTO supplier_delivery
SELECT 400 + n, p.supplier_id, p.part_id, 'draft', DATE '2025-06-02' + n, NULL, p.pack_size, NULL, p.unit_cost
FROM (VALUES (1, 1), (2, 5), (3, 7), (4, 33), (5, 43), (6, 52)) AS d (n, part)
JOIN spare_part AS p ON p.part_id = d.part;

INSERT INTO safety_inspection
WITH raw AS (
    SELECT m, 1 + (m * 137 + m / 5) % 360 AS bike, 1 + (m * 5) % 16 AS tech, DATE '2024-05-02' + (m * 191) % 420 AS day,
           35 + (m * 67) % 66 AS b, 48 + (m * 29) % 53 AS f, 30 + (m * 83) % 71 AS l
    FROM generate_series(1, 690) AS m
)
SELECT m, bike, tech, day,
       CASE WHEN m % 13 = 0 THEN NULL ELSE b END, f, l,
       CASE WHEN m % 19 = 0 THEN NULL WHEN m % 5 = 0 THEN 44 + m % 23 || ' psi' ELSE round(3 + m % 17 * 0.1, 1) || ' bar' END,
       CASE WHEN b < 45 OR f < 52 THEN CASE WHEN m % 4 = 0 THEN 'Fail' ELSE 'fail' END
            WHEN l < 50 THEN 'conditional' WHEN m % 6 = 0 THEN 'Pass' ELSE 'pass' END,
       CASE WHEN m % 3 = 0 THEN (ARRAY['brake lever loose','rust on frame','rear light dim','saddle worn'])[1 + m % 4] END
FROM raw WHERE bike % 23 <> 5;

INSERT INTO safety_inspection
SELECT 700 + row_number() OVER (ORDER BY inspection_id)::int, bike_id, technician_id, inspected_on, brake_score, frame_score, light_score,
       tyre_pressure, inspection_outcome, 'entered twice'
FROM safety_inspection WHERE inspection_id % 43 = 0;
