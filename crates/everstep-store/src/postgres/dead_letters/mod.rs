//! Dead letters. Their rows are inserted by the commit (`runs`) and by the fan-out (`topics`).
//!
//! * `store`: the port's implementation. `results`: the ends of requeues and notices, as the arrays of statements.

mod results;
mod rows;
mod store;
