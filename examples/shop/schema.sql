-- The shop that overdue.yaml asks.
create table orders (id integer primary key, customer text not null, total real not null, paid_at text);
insert into orders (customer, total, paid_at) values
  ('ann', 12.5, null),
  ('ann', 40, '2026-02-01'),
  ('ann', 3, null),
  ('bob', 7, '2026-03-01');
