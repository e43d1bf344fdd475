//! Caches compiled expressions by their source.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::program::Program;
use crate::token::SyntaxError;

/// The number of programs in the cache; when it is full, it is cleared. The workflows of a server rarely have as many.
const CACHED_PROGRAMS_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Cache(RwLock<HashMap<String, Arc<Program>>>);

impl Cache {
    pub(crate) fn get_or_compile(&self, source: &str) -> Result<Arc<Program>, SyntaxError> {
        if let Some(program) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(source) {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(Program::compile(source)?);
        let mut programs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if programs.len() >= CACHED_PROGRAMS_MAX {
            programs.clear();
        }
        programs.insert(source.to_owned(), Arc::clone(&program));
        Ok(program)
    }
}
