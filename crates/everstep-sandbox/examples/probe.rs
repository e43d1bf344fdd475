use std::time::{Duration, Instant};
use rquickjs::{Context, Runtime};
fn main() {
    let g = "{length: 1e8}";
    let codes = [
        format!("Array.prototype.indexOf.call({g}, 1)"),
        format!("Array.prototype.lastIndexOf.call({g}, 1)"),
        format!("Array.prototype.includes.call({g}, 1)"),
        format!("Array.prototype.reverse.call({g})"),
        format!("Array.prototype.forEach.call({g}, () => 1)"),
        format!("Array.prototype.copyWithin.call({g}, 0, 5)"),
        format!("Array.prototype.slice.call({g}, 0)"),
        format!("Array.prototype.shift.call({g})"),
        format!("Array.prototype.splice.call({g}, 0, 1)"),
        format!("Array.prototype.join.call({g}, '')"),
        format!("Array.prototype.concat.call([], {{length: 1e8, [Symbol.isConcatSpreadable]: true}})"),
        format!("Array.prototype.flat.call({g})"),
        format!("Array.prototype.find.call({g}, () => false)"),
        format!("Array.prototype.sort.call({g})"),
        format!("Array.prototype.toReversed.call({g})"),
        format!("new Array(1e8).indexOf(1)"),
        format!("new Array(1e8).sort()"),
        format!("JSON.stringify(new Array(1e8))"),
        format!("new Uint8Array(5e7).indexOf(1)"),
        format!("const s='a'.repeat(3e7); s.indexOf('b'.repeat(10)); s.lastIndexOf('ab'); s.split('').length"),
        format!("'a'.repeat(1e6).indexOf('a'.repeat(5e5)+'b')"),
        format!("'a'.repeat(1e6).replaceAll('a', 'bb').length"),
        format!("let a = 7n ** 300000n; String(a).length"),
        format!("let a = 7n ** 350000n; a * a % 97n; 1"),
        format!("new Intl"),
        format!("String.raw({{raw: {{length: 1e8}}}})"),
        format!("Reflect.apply(Math.max, null, {{length: 6e4}})"),
        format!("'x'.normalize('NFD'); 'e\\u0301'.repeat(1e6).normalize('NFC').length"),
        format!("'a'.repeat(2e6).localeCompare('a'.repeat(2e6))"),
        format!("'İ'.repeat(2e6).toLowerCase().length"),
    ];
    for code in codes {
        let rt = Runtime::new().unwrap();
        rt.set_memory_limit(64 << 20);
        rt.set_max_stack_size(1 << 20);
        let begin = Instant::now();
        let deadline = begin + Duration::from_millis(100);
        rt.set_interrupt_handler(Some(Box::new(move || Instant::now() >= deadline)));
        let ctx = Context::full(&rt).unwrap();
        let r = ctx.with(|ctx| ctx.eval::<rquickjs::Value, _>(code.as_str()).map(|v| v.type_name().to_string()).map_err(|e| { let _=e; format!("{:?}", ctx.catch().as_exception().map(|e| e.message())) }));
        println!("{:>8.0?} {:.60} {:?}", begin.elapsed(), code, r);
    }
}
