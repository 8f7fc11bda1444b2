// Catalogues of the image library: databases whose pages are damaged, and sound ones that hold what we never wrote.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/branches/library/library_catalogue.h"
#include "tests/fuzz/byte_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr int64_t kMaxSteps = 1000;  // of a walk over what may be damaged
constexpr const char* kValues[] = {"NULL",
                                   "-1",
                                   "9223372036854775807",
                                   "1e300",
                                   "''",
                                   "zeroblob(3000)",
                                   "x''",
                                   "x'00ff'",
                                   "'text'",
                                   "0",
                                   "zeroblob(16)",
                                   "1",
                                   "randomblob(72)",
                                   "char(27)",
                                   "'a\"b'",
                                   "zeroblob(32)"};

// A database file of this process, in memory where the system has that.
class Database {
 public:
  Database() : path_(temporary_path("catalogue")) {}
  ~Database() { remove(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const char* path() const { return path_.c_str(); }
  void remove() const {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) ::unlink((path_ + suffix).c_str());
  }
  void hold(const uint8_t* data, size_t size) const {
    remove();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    require(file.good(), "a database file can be written");
  }
  Bytes read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

const Database& database() {
  static const Database one;
  return one;
}

EntryHeader make_header(uint64_t number) {
  EntryHeader header;
  header.key = {number, number};
  header.facts.layer_count = 1;
  header.facts.embedding_width = 4;
  header.facts.content = {number, 1};
  const std::string_view tags[] = {"board", "blue"};
  require(header.owner.assign("ann") &&
              make_labels(tags, "A blue board.", number % 2 == 0 ? 0 : 50, false, &header.labels).ok(),
          "the seeds' labels are sound");
  require(header.embedding.resize(4).ok() && header.blocks.resize(2).ok(), "the seeds have memory");
  for (float& value : header.embedding) value = 0.5f;
  lay_out_entry(&header);
  return header;
}

std::vector<Bytes> make_seeds() {
  database().remove();
  {
    Catalogue catalogue;
    bool fits = false;
    require(catalogue.open(database().path(), &fits).ok() && fits, "a catalogue can be made");
    OwnerRecord owner;
    require(owner.name.assign("ann") && catalogue.save_owner(&owner).ok(), "an owner can be noted");
    for (uint64_t i = 1; i <= 4; ++i)
      require(catalogue.save_entry(owner.id, make_header(i), static_cast<int64_t>(i)).ok(), "an entry can be noted");
  }
  sqlite3* plain = nullptr;  // all of it into one file
  require(sqlite3_open(database().path(), &plain) == SQLITE_OK, "the catalogue opens");
  sqlite3_exec(plain, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE; VACUUM", nullptr, nullptr, nullptr);
  sqlite3_close(plain);
  const Bytes seed = database().read();
  database().remove();
  return {seed};
}

std::vector<std::string> query(sqlite3* open, const std::string& text) {
  std::vector<std::string> rows;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(open, text.c_str(), -1, &statement, nullptr) != SQLITE_OK) return rows;
  while (sqlite3_step(statement) == SQLITE_ROW && rows.size() < size_t{kMaxSteps}) {
    const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    rows.push_back(value != nullptr ? value : "");
  }
  sqlite3_finalize(statement);
  return rows;
}

// A change in SQL: the file stays a sound database.
std::string pick_change(sqlite3* open, Random& random) {
  std::vector<std::string> tables = query(open, "SELECT name FROM sqlite_master WHERE type = 'table'");
  if (tables.empty()) return "";
  const std::string table = pick(tables, random);
  std::vector<std::string> columns = query(open, "SELECT name FROM pragma_table_info('" + table + "')");
  if (columns.empty()) return "";
  const std::string column = pick(columns, random), other = pick(columns, random), value = pick(kValues, random);
  const std::string some = once_in(2, random) ? "" : " WHERE rowid % 2";
  switch (random.integer(0, 9)) {
    case 0: return "DELETE FROM \"" + table + "\"" + some;
    case 1: return "DROP TABLE \"" + table + "\"";
    case 2: return "ALTER TABLE \"" + table + "\" DROP COLUMN \"" + column + "\"";
    case 3: return "INSERT INTO \"" + table + "\"(\"" + column + "\") VALUES(" + value + ")";
    case 4: return "PRAGMA user_version = " + std::to_string(random.integer(-1, 9));
    case 5: return "ALTER TABLE \"" + table + "\" RENAME COLUMN \"" + column + "\" TO x";
    case 6: return "UPDATE OR REPLACE \"" + table + "\" SET \"" + column + "\" = \"" + other + "\"" + some;
    default: return "UPDATE OR IGNORE \"" + table + "\" SET \"" + column + "\" = " + value + some;
  }
}

void change_catalogue(Bytes& input, Random& random) {
  if (once_in(3, random)) {  // a few bytes behind the file's head
    for (int64_t left = random.integer(1, 8); left > 0 && input.size() > 100; --left)
      input[100 + pick_index(input.size() - 100, random)] = static_cast<uint8_t>(odd_number(random));
    return;
  }
  database().hold(input.data(), input.size());
  sqlite3* open = nullptr;
  if (sqlite3_open(database().path(), &open) == SQLITE_OK) {
    sqlite3_exec(open, "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF",
                 nullptr, nullptr, nullptr);
    sqlite3_exec(open, pick_change(open, random).c_str(), nullptr, nullptr, nullptr);
    sqlite3_exec(open, "PRAGMA wal_checkpoint(TRUNCATE)", nullptr, nullptr, nullptr);
  }
  sqlite3_close(open);
  input = database().read();
}

Status take_vector(void* user, const CatalogueVector& vector) {
  double& sum = *static_cast<double*>(user);
  for (const float number : vector.embedding) sum += number;
  return {};
}

Status walk_entries(Catalogue& catalogue, int64_t* count) {
  CatalogueRow row;
  bool found = true;
  for (int64_t step = 0; step < kMaxSteps && found; ++step) {
    const int64_t before = row.id;
    OCELLUS_TRY(catalogue.next_entry(Catalogue::kAllOwners, before, &row, &found));
    if (!found) break;
    require(row.id > before, "a walk over entries goes on");
    require(row.labels.tags.count >= 0 && row.labels.tags.count <= kMaxTags, "an entry has as many tags as it may");
    ++*count;
  }
  return {};
}

// Everything that the library asks of a catalogue.
Status use(Catalogue& catalogue, int64_t* entries) {
  OwnerRecord owner;
  CatalogueRow row;
  CatalogueSums sums;
  int64_t seconds = 100, number = 0;
  double sum = 0;
  bool found = false, complete = false;
  Buffer<int64_t> changed;
  Buffer<CatalogueMatch> matches;
  const int64_t owners[] = {1};
  OCELLUS_TRY(catalogue.see_time(&seconds));
  OCELLUS_TRY(catalogue.find_owner("ann", &owner, &found));
  OCELLUS_TRY(catalogue.next_owner(0, &owner, &found));
  OCELLUS_TRY(walk_entries(catalogue, entries));
  OCELLUS_TRY(catalogue.find_entry({1, 1}, &row, &found));
  OCELLUS_TRY(catalogue.sum_entries(Catalogue::kAllOwners, &sums));
  OCELLUS_TRY(catalogue.find_expired(Catalogue::kAllOwners, 100, &row, &found));
  OCELLUS_TRY(catalogue.find_oldest(1, {2, 2}, &row, &found));
  OCELLUS_TRY(catalogue.last_change(&number));
  OCELLUS_TRY(catalogue.list_changes(0, &changed, &complete));
  OCELLUS_TRY(catalogue.visit_vectors(0, take_vector, &sum));
  OCELLUS_TRY(catalogue.search_text(owners, "\"board\"", 10, 4, &matches));
  OCELLUS_TRY(catalogue.begin());
  OCELLUS_TRY(catalogue.save_entry(1, make_header(9), 7));
  OCELLUS_TRY(catalogue.drop_entry({1, 1}));
  return catalogue.commit();
}

bool run(const uint8_t* data, size_t size) {
  database().hold(data, size);
  int64_t entries = 0;
  bool is_good = false;
  {
    Catalogue catalogue;
    bool fits = false;
    const Status opened = catalogue.open(database().path(), &fits);
    is_good = opened.ok() && fits && use(catalogue, &entries).ok();
  }
  database().remove();
  return is_good && entries > 0;
}

const Registration kRegistered({.name = "library_catalogue",
                                .make_seeds = make_seeds,
                                .mutate = change_catalogue,
                                .run = run,
                                .most_bytes = size_t{1} << 18,
                                .most_heap_bytes = int64_t{32} << 20});

}  // namespace
}  // namespace ocellus::fuzz
