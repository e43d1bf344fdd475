//! The rows of the route table.

use axum::http::Method;

use super::wire::{FileBytes, UploadedFile};
use super::{download, upload};
use crate::auth::Access;
use crate::auth::Permission::{Act, View};
use crate::http::openapi::{Doc, Parameter, doc};
use crate::routes::Table;

const FILE_BYTES: &str = "application/octet-stream";

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter("files", Parameter::id("id", "The file's id."))
        .path_parameter("files", Parameter::id("publicId", "The file's id."))
        .guarded(
            Act,
            Method::POST,
            "/v1/files",
            doc("files", "Upload a file")
                .about(
                    "The body is the file; its media type is `Content-Type`. Or it is a form of a browser, \
                     `multipart/form-data`, with one part, which may name the file. At most 25 MiB \
                     (`EVERSTEP_FILE_MAX_BYTES`). Name the file in a transition within 24 hours: it then belongs to the \
                     entry of the history that records the transition. A file that no transition names is deleted. \
                     An upload that is interrupted leaves nothing.",
                )
                .query(upload::PARAMETERS)
                .takes_bytes::<FileBytes>("application/octet-stream")
                .answers::<UploadedFile>(201)
                .refuses(409, "`QUOTA_REACHED`: the files of this person that no run has would exceed 250 MiB.")
                .refuses(
                    429,
                    "`RATE_LIMITED`: four files are being uploaded to this server, or three of this workspace while \
                     others upload too.",
                ),
            upload::post,
        )
        .guarded(Access::OrAct(View), Method::GET, "/v1/files/{id}", download_doc("Download a file"), download::get)
        .guarded(
            Access::OrAct(View),
            Method::GET,
            "/api/files/{publicId}",
            download_doc("Download a file (alias)"),
            download::get,
        )
}

fn download_doc(summary: &'static str) -> Doc {
    doc("files", summary)
        .about(
            "The bytes of a file. A caller who may read the run may read its files; a file that no transition has named \
             is read by the person who uploaded it. `Content-Disposition` is `inline` for PNG, JPEG, GIF, WebP, PDF and \
             plain text whose first bytes have that form, and `attachment` for everything else.",
        )
        .header(Parameter::text("Range", "One range of bytes: `bytes=0-1023`. Several ranges are ignored."))
        .header(Parameter::text("If-Range", "The `ETag` of the file of which `Range` is a part."))
        .sends(200, FILE_BYTES)
        .with_header("ETag", "The SHA-256 of the file.")
        .with_header("Content-Disposition", "Whether a browser shows the file, and its name.")
        .sends(206, FILE_BYTES)
        .with_header("Content-Range", "The part of the file that is sent.")
        .cached()
        .refuses(416, "`VALIDATION_ERROR`: the file has no byte of the range.")
}
