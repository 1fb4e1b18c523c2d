"""Every error that Frazil raises, as one tree.

    FrazilError                      base; `hint` says what to do next, `facts` what the error is about
    ├── ConfigError                  a setting is wrong; names the key and where it came from
    ├── ArgumentError                an argument of a call has the wrong type or form; says what is expected
    ├── MissingExtra                 an optional library is not installed; gives the install command
    ├── ProjectError                 lakehouse.py is missing, does not load, or lacks the requested object
    │   └── OtherProject             tables belong to another project; names both
    ├── DeclarationError             a table is declared wrongly, or cannot become what is declared
    │   └── ChangeRefused            the change would break readers or lose data; holds every reason
    ├── StalePlan                    the table has changed since the plan was made; this step did nothing
    ├── TableBroken                  the table is in the catalog, its metadata file is unreadable; names both
    ├── PipelineError                a run stopped; nothing of it was committed
    │   ├── SourceDrift              the columns of source files differ from the table's; names them
    │   ├── SourceChanged            files that were loaded have different content now; names them
    │   ├── TooManyBadRows           more rows were rejected than the pipeline allows; gives counts and reasons
    │   ├── MessagesLost             Kafka deleted messages before they were read; gives the offsets
    │   └── AuditFailed              a check of the staged rows failed; main is unchanged, the rows are on a branch
    ├── HistoryError                 a snapshot, timestamp, branch or tag does not exist, or cannot be changed so
    │   └── EnvironmentMoved         tables of an environment cannot be published; says why for each
    ├── UpkeepError                  maintenance of a table is not possible as requested
    │   └── RowsMismatch             a rewrite would have changed the rows; nothing of it was committed
    ├── ReferencesUnknown            a table that may reference a file cannot be read; nothing was deleted
    ├── ScanError                    a scan cannot be planned; names the column, value or snapshot, and similar names
    │   ├── ManifestUnreadable       a manifest or manifest list is damaged; names it
    │   ├── VectorError              a vector search or index is not possible as requested
    │   └── DataFileUnreadable       a data or delete file is damaged or has an unsupported format; names it
    │       ├── DataFileMissing      the file does not exist
    │       └── IndexDamaged         a file of a vector index is damaged; searches do not use it
    ├── QueryError                   SQL cannot be run; names the table or column, and similar names
    ├── DownloadError                an artifact could not be downloaded into the cache
    ├── CatalogError                 what the REST catalog answers; its HTTP status is in catalog/problems.py
    │   ├── BadRequest               the request is malformed; names the field
    │   │   ├── InvalidChange        well-formed, but not possible for this table or view
    │   │   └── MalformedLocation    a location that is ambiguous
    │   ├── UnknownRoute             no operation has this path
    │   ├── MethodNotAllowed         the path exists, but not with this method
    │   ├── NotFound
    │   │   ├── NoSuchWarehouse
    │   │   ├── NoSuchNamespace
    │   │   ├── NoSuchTable
    │   │   ├── NoSuchView
    │   │   ├── NoSuchFunction
    │   │   ├── NoSuchIndex
    │   │   ├── NoSuchPlan           a plan id that this catalog did not issue
    │   │   ├── NoSuchPlanTask       a plan task that this catalog did not issue, or whose snapshot has expired
    │   │   └── MetadataMissing      the catalog points to a metadata file that does not exist
    │   ├── AlreadyExists
    │   ├── NamespaceNotEmpty
    │   ├── LocationRefused          outside the warehouse and every allowed prefix
    │   ├── ForeignFile              a snapshot names a file that is not in the table's own places
    │   ├── PropertyRefused          a property that makes clients load code or connect to other hosts
    │   ├── LocationOccupied         overlaps the location of another table, view or namespace; names it
    │   ├── UuidTaken                a new table is to have the UUID of another one
    │   ├── Unprocessable            well-formed, but contradictory
    │   │   ├── KeyReused            an idempotency key was sent with a different request
    │   │   └── MetadataCorrupt      the metadata file exists, but is not valid table metadata
    │   ├── BodyTooLarge
    │   ├── BodyTooSlow
    │   ├── RequestTooSlow           the request head did not arrive in time
    │   ├── UrlTooLong
    │   ├── HeadersTooLarge
    │   ├── TooBusy                  too many concurrent requests; nothing was done
    │   │   └── QuotaExceeded        a principal is over its limit
    │   ├── NotAuthenticated         the request has no token, or one that is not valid
    │   ├── Forbidden                the caller may see the object, but not do this with it
    │   ├── HostRefused              the Host header names another server
    │   ├── OriginRefused            a web page of another site sent the request
    │   ├── UnsupportedBody          the encoding of the body is not supported
    │   ├── NotSupported             a part of the specification that this server does not implement
    │   │   └── NotVendable          no credentials can be given for this table alone; says why
    │   ├── NotSigned                a request to the object store that is not signed; says why
    │   ├── CommitConflict           nothing was committed; refresh and retry
    │   ├── CommitUnknown            the commit may have happened; check before you retry
    │   └── Unavailable              the database or object store is unreachable or denies access; nothing was changed
    ├── AccessError                  a key, role or grant does not exist, or cannot be changed so
    ├── WarehouseError               a warehouse of the database does not exist, or cannot be created or changed so
    ├── SchemaBehind                 the database schema is older than this version; gives the migration command
    ├── SinkError                    the sink stopped; rows that were not committed stay uncommitted
    │   ├── PartitionSpecError       a partition spec does not fit the schema; names the column and its type
    │   ├── SchemaMismatch           a batch lacks a column, has an unknown one, or one of another type
    │   ├── RowRefused               a row breaks its type, NOT NULL or a check, and the policy is to stop
    │   ├── CheckError               a check is invalid, or names an unknown column
    │   ├── WriteFailed              a data file or temporary file could not be written; gives the path and reason
    │   ├── RowsLost                 written files have another row count than the input: a bug, found before the commit
    │   ├── WriterFenced             a newer writer owns this part of the sink; stop, do not retry
    │   └── ProgressMismatch         the rows do not continue where the table's progress ends
    └── ServiceError                 a server of the local stack failed; holds its name and the end of its log
        ├── PortInUse
        ├── JavaMissing
        ├── DiskFull
        ├── ServiceDied
        └── ServiceNotReady

There is a class for each case that a caller can handle differently. What the error is about is in its attributes
(`table`, `column`, `expected`, `got`, ...), so code and tests need not parse the message; `facts` holds all of them.
Errors can be pickled with their facts.
"""

from frazil.errors.base import Facts, FrazilError
from frazil.errors.catalog import (
    AccessError,
    AlreadyExists,
    BadRequest,
    BodyTooLarge,
    BodyTooSlow,
    CatalogError,
    CommitConflict,
    CommitUnknown,
    Forbidden,
    ForeignFile,
    HeadersTooLarge,
    HostRefused,
    InvalidChange,
    KeyReused,
    LocationOccupied,
    LocationRefused,
    MalformedLocation,
    MetadataCorrupt,
    MetadataMissing,
    MethodNotAllowed,
    NamespaceNotEmpty,
    NoSuchFunction,
    NoSuchIndex,
    NoSuchNamespace,
    NoSuchPlan,
    NoSuchPlanTask,
    NoSuchTable,
    NoSuchView,
    NoSuchWarehouse,
    NotAuthenticated,
    NotFound,
    NotSigned,
    NotSupported,
    NotVendable,
    OriginRefused,
    PropertyRefused,
    QuotaExceeded,
    RequestTooSlow,
    SchemaBehind,
    TooBusy,
    Unavailable,
    UnknownRoute,
    Unprocessable,
    UnsupportedBody,
    UrlTooLong,
    UuidTaken,
    WarehouseError,
)
from frazil.errors.pipelines import AuditFailed, MessagesLost, PipelineError, SourceChanged, SourceDrift, TooManyBadRows
from frazil.errors.project import (
    ArgumentError,
    ChangeRefused,
    ConfigError,
    DeclarationError,
    MissingExtra,
    OtherProject,
    ProjectError,
    StalePlan,
    TableBroken,
)
from frazil.errors.scan import (
    DataFileMissing,
    DataFileUnreadable,
    IndexDamaged,
    ManifestUnreadable,
    QueryError,
    ScanError,
    VectorError,
)
from frazil.errors.services import (
    DiskFull,
    DownloadError,
    JavaMissing,
    PortInUse,
    ServiceDied,
    ServiceError,
    ServiceNotReady,
)
from frazil.errors.upkeep import EnvironmentMoved, HistoryError, ReferencesUnknown, RowsMismatch, UpkeepError
from frazil.errors.write import (
    CheckError,
    PartitionSpecError,
    ProgressMismatch,
    RowRefused,
    RowsLost,
    SchemaMismatch,
    SinkError,
    WriteFailed,
    WriterFenced,
)

__all__ = [
    "AccessError",
    "AlreadyExists",
    "ArgumentError",
    "AuditFailed",
    "BadRequest",
    "BodyTooLarge",
    "BodyTooSlow",
    "CatalogError",
    "ChangeRefused",
    "CheckError",
    "CommitConflict",
    "CommitUnknown",
    "ConfigError",
    "DataFileMissing",
    "DataFileUnreadable",
    "DeclarationError",
    "DiskFull",
    "DownloadError",
    "EnvironmentMoved",
    "Facts",
    "Forbidden",
    "ForeignFile",
    "FrazilError",
    "HeadersTooLarge",
    "HistoryError",
    "HostRefused",
    "IndexDamaged",
    "InvalidChange",
    "JavaMissing",
    "KeyReused",
    "LocationOccupied",
    "LocationRefused",
    "MalformedLocation",
    "ManifestUnreadable",
    "MessagesLost",
    "MetadataCorrupt",
    "MetadataMissing",
    "MethodNotAllowed",
    "MissingExtra",
    "NamespaceNotEmpty",
    "NoSuchFunction",
    "NoSuchIndex",
    "NoSuchNamespace",
    "NoSuchPlan",
    "NoSuchPlanTask",
    "NoSuchTable",
    "NoSuchView",
    "NoSuchWarehouse",
    "NotAuthenticated",
    "NotFound",
    "NotSigned",
    "NotSupported",
    "NotVendable",
    "OriginRefused",
    "OtherProject",
    "PartitionSpecError",
    "PipelineError",
    "PortInUse",
    "ProgressMismatch",
    "ProjectError",
    "PropertyRefused",
    "QueryError",
    "QuotaExceeded",
    "ReferencesUnknown",
    "RequestTooSlow",
    "RowRefused",
    "RowsLost",
    "RowsMismatch",
    "ScanError",
    "SchemaBehind",
    "SchemaMismatch",
    "ServiceDied",
    "ServiceError",
    "ServiceNotReady",
    "SinkError",
    "SourceChanged",
    "SourceDrift",
    "StalePlan",
    "TableBroken",
    "TooBusy",
    "TooManyBadRows",
    "Unavailable",
    "UnknownRoute",
    "Unprocessable",
    "UnsupportedBody",
    "UpkeepError",
    "UrlTooLong",
    "UuidTaken",
    "VectorError",
    "WarehouseError",
    "WriteFailed",
    "WriterFenced",
]

# Tracebacks, logs and pickles name a class by the place that users import it from.
for _name in __all__:
    globals()[_name].__module__ = __name__
