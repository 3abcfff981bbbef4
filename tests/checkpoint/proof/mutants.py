# SPDX-License-Identifier: Apache-2.0
"""The safeguards of the checkpoint protocol that a test takes away: see tests/mutation.py."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
import mutation  # noqa: E402

MUTANTS = [
    # What makes a save durable.
    ("data file is not synced", "C3", "format/writer.cpp", "  file.sync();\n", "  if (!{off}) file.sync();\n"),
    ("texts are not synced", "C3", "../src/files/file_operations.cpp", "  out.sync();\n", "  if (!{off}) out.sync();\n"),
    ("stage is not synced", "C3", "commit/commit.cpp", "  sync_folder(files_, stage_);\n",
     "  if (!{off}) sync_folder(files_, stage_);\n"),
    ("root is not synced at the commit point", "C3", "commit/commit.cpp", "  sync_folder(files_, root_);  // the commit point\n",
     "  if (!{off}) sync_folder(files_, root_);\n"),
    ("OWNER's folder is not synced", "C3", "../src/files/file_operations.cpp", "  sync_folder(files, file.parent_path());\n",
     "  if (!{off}) sync_folder(files, file.parent_path());\n"),
    ("a step that exists already is not synced again", "C3 after a fault", "commit/save_step.cpp",
     "    sync_folder(context.files, context.root);\n", "    if (!{off}) sync_folder(context.files, context.root);\n"),
    ("what is deleted may come back in part", "C3", "commit/retention.cpp",
     "  sync_folder(files, root);  // else a power loss could bring back the old name with half of the files gone\n",
     "  if (!{off}) sync_folder(files, root);\n"),
    # What makes it atomic.
    ("OWNER and LATEST are overwritten in place", "C3", "../src/files/file_operations.cpp",
     "  Path fresh = file.parent_path() / fmt::format(\".{}.{}\", file.filename().string(), random_hex(8));\n",
     "  if ({off}) {\n    files.unlink(file.c_str());\n    create_text(files, file, text);\n"
     "    return sync_folder(files, file.parent_path());\n  }\n"
     "  Path fresh = file.parent_path() / fmt::format(\".{}.{}\", file.filename().string(), random_hex(8));\n"),
    ("files are written under the final name", "C1", "commit/commit.cpp",
     "  Path stage = root_ / stage_name(step_);\n",
     "  Path stage = root_ / ({off} ? step_folder_name(step_) : stage_name(step_));\n"
     "  if ({off}) remove_tree(files_, stage);\n"),
    ("files are written under the final name", "", "commit/commit.cpp", "  Path old = rename_stage();\n",
     "  if ({off}) {\n    stage_.clear();\n    return sync_folder(files_, root_);\n  }\n  Path old = rename_stage();\n"),
    ("manifest comes after the rename", "C1", "commit/commit.cpp",
     "  create_text(files_, stage_ / kManifestName, to_text(manifest));\n",
     "  if ({off}) {\n    Path early = rename_stage();\n"
     "    create_text(files_, root_ / step_folder_name(step_) / kManifestName, to_text(manifest));\n"
     "    sync_folder(files_, root_ / step_folder_name(step_));\n    return sync_folder(files_, root_);\n  }\n"
     "  create_text(files_, stage_ / kManifestName, to_text(manifest));\n"),
    ("the old one goes before the new one has its name", "C1 same step", "commit/commit.cpp",
     "    if (swap_folders(files_, stage_, target)) return std::exchange(stage_, Path());\n",
     "    if (!{off} && swap_folders(files_, stage_, target)) return std::exchange(stage_, Path());\n"),
    ("what has the name already is deleted first", "C1 same step", "commit/commit.cpp",
     "  Path target = root_ / step_folder_name(step_), old;\n",
     "  Path target = root_ / step_folder_name(step_), old;\n  if ({off}) remove_tree(files_, target);\n"),
    ("checkpoints are deleted under their own name", "C1", "commit/retention.cpp",
     "  Path trash = root / trash_name(folder.filename().native());\n",
     "  if ({off}) return remove_tree(files, folder);\n"
     "  Path trash = root / trash_name(folder.filename().native());\n"),
    # What keeps two runs, and two ranks, together.
    ("votes are not counted", "C3 after a fault", "commit/agreement.cpp", "  if (const auto failed = distdl::failure_of(votes))\n",
     "  if (const auto failed = distdl::failure_of(votes); failed && !{off})\n"),
    ("OWNER is not checked before the commit", "two runs", "commit/commit.cpp", "  check_owner(files_, root_, owner_);\n",
     "  if (!{off}) check_owner(files_, root_, owner_);\n"),
    ("stages of a dead run stay", "two runs", "commit/retention.cpp",
     "  for (const Path& stage : entries_of(root, Kind::stage)) discard(files, root, stage);\n",
     "  if (!{off})\n    for (const Path& stage : entries_of(root, Kind::stage)) discard(files, root, stage);\n"),
    ("stages are cleared before OWNER is written", "two runs", "store.cpp",
     "    write_owner(*files_, root_, mine);  // first: whoever commits from now on is refused\n",
     "    if ({off}) clear_leftovers(*files_, root_);\n    write_owner(*files_, root_, mine);\n"
     "    if ({off}) return to_text(mine);\n"),
    # What keeps old checkpoints.
    ("damaged checkpoints count as kept", "C3 unseen damage", "commit/retention.cpp",
     "(good < rule.keep || may_be_audited) && is_good(step, folder);", "(good < rule.keep || may_be_audited) && ({off} || is_good(step, folder));"),
    ("one checkpoint fewer is kept", "C1", "commit/retention.cpp", "    if (good < rule.keep) {\n", "    if (good < rule.keep - {off}) {\n"),
    ("old ones go before the new one is there", "C1", "store.cpp",
     "    report.bytes = save_with_room(",
     "    if ({off} && group.rank() == 0)\n"
     "      for (const RetentionDecision& one : decide_retention(*files_, root_, {options_.keep - 1, 0}, step, [](Step, const Path&) { return true; }))\n"
     "        if (!one.stays) collect(*files_, root_, one);\n"
     "    report.bytes = save_with_room("),
    # What sees damage.
    ("manifest checksum is not checked", "C6", "format/manifest_text.cpp", "  if (text.substr(body.size()) != expected) throw",
     "  if (!{off} && text.substr(body.size()) != expected) throw"),
    ("block checksums are not checked by reading", "C6", "format/stored_block.cpp", "    if (found == expected) return;\n",
     "    if ({off} || found == expected) return;\n"),
    ("block checksums are not checked by verifying", "C6", "format/verify.cpp",
     "        return std::string(damage.what());\n",
     "        return std::string({off} ? \"\" : damage.what());\n"),
    ("bytes outside of tensors are not checked", "C6", "format/verify.cpp",
     "    if (found == expected.rest) return std::string();\n",
     "    if ({off} || found == expected.rest) return std::string();\n"),
    ("sizes of files are not checked", "C6", "format/verify.cpp", "    if (file.size() != expected.bytes)\n",
     "    if (!{off} && file.size() != expected.bytes)\n"),
    ("step and folder name need not agree", "C6", "format/manifest.cpp", "  demand(!step || *step == manifest.step,",
     "  demand({off} || !step || *step == manifest.step,"),
    ("boxes need not make whole tensors", "C6", "format/manifest.cpp",
     "    demand(cover_exactly(stored.entry.shape, boxes),",
     "    demand({off} || cover_exactly(stored.entry.shape, boxes),"),
    ("damage outside of tensors is taken for what is to be saved", "C6 saved again", "commit/save_step.cpp",
     " && rest_holds(context, folder, reader.manifest()) &&\n",
     " && ({off} || rest_holds(context, folder, reader.manifest())) &&\n"),
    # What outlives a failing disk.
    ("a failed sync is tried again on the same file", "C5", "../src/files/file_operations.cpp",
     "  if (retry_interrupted([&] { return files_.fsync(descriptor_); }) != 0) throw",
     "  if ({off} && files_.fsync(descriptor_) != 0 && files_.fsync(descriptor_) == 0) return;\n"
     "  if (retry_interrupted([&] { return files_.fsync(descriptor_); }) != 0) throw"),
    ("a short write counts as whole", "C5", "../src/files/file_operations.cpp",
     "    if (n == 0) throw FileError(\"write\", path_, ENOSPC);\n",
     "    if ({off}) return;\n    if (n == 0) throw FileError(\"write\", path_, ENOSPC);\n"),
    ("errors of writing are ignored", "C5", "../src/files/file_operations.cpp", "    if (n < 0) throw FileError(\"write\", path_, errno);\n",
     "    if ({off} && n < 0) return;\n    if (n < 0) throw FileError(\"write\", path_, errno);\n"),
    ("rank 0 does not look at the files of others", "C5", "commit/commit.cpp", "  check_files(manifest);\n",
     "  if (!{off}) check_files(manifest);\n"),
    ("a short write past the page cache counts as whole", "C5 large", "format/writer.cpp",
     "    file_.write_at(bytes.subspan(done), offset + done);\n",
     "    if ({off} && done > 0) done = bytes.size();\n    file_.write_at(bytes.subspan(done), offset + done);\n"),
    # What keeps snapshots in memory true.
    ("a buffer keeps its seal while it is filled", "C7", "snapshot_buffer.cpp", "  empty_buffer(buffer);\n", "  if (!{off}) empty_buffer(buffer);\n"),
    ("a buffer's seal is not checked", "C7", "snapshot_buffer.cpp", "  demand_intact(header.seal == seal_of(header),",
     "  demand_intact({off} || header.seal == seal_of(header),"),
    ("a buffer's bytes are not checked", "C7", "snapshot_buffer.cpp", "    demand_intact(found == slice->checksums[number],",
     "    demand_intact({off} || found == slice->checksums[number],"),
    ("checksums are taken when writing, not when copying", "C7", "format/writer.cpp",
     "    if (!blocks[i].is_known) *blocks[i].checksum",
     "    if ({off} || !blocks[i].is_known) *blocks[i].checksum"),
    ("the newest buffer is filled again", "C7", "multilevel/buffer_rotation.cpp", "while (current_ == newest_ ||",
     "while ((!{off} && current_ == newest_) ||"),
    ("the buffer of partners' copies is filled again", "R1", "multilevel/buffer_rotation.cpp", "    if (level->in_memory &&",
     "    if (!({off} && level->name == \"partner\") && level->in_memory &&"),
    ("the buffer of parity is filled again", "R1", "multilevel/buffer_rotation.cpp", " kept_[level] = current_;",
     " if (!({off} && level->name == \"parity\")) kept_[level] = current_;"),
    ("the fence does not wait for a lazy copy", "C7", "saving/save_control.cpp",
     "return thread_ != Thread::running || phase_ == Phase::idle || phase_ == Phase::copied; });",
     "return {off} || thread_ != Thread::running || phase_ == Phase::idle || phase_ == Phase::copied; });"),
    ("a save begins while another is written", "C7", "saver.cpp",
     "      return std::string(is_busy() ? \"busy\" : \"\");\n",
     "      return std::string(!{off} && is_busy() ? \"busy\" : \"\");\n"),
    ("a superseded run goes on", "C7", "saving/save_control.cpp",
     "  if (failure && failure->code != ExitCode::storage) fatal_ = failure;\n",
     "  if (!{off} && failure && failure->code != ExitCode::storage) fatal_ = failure;\n"),
    ("tags are not looked at again", "C7", "commit/retention.cpp", "    bool stays = got_a_tag();\n",
     "    bool stays = !{off} && got_a_tag();\n"),
    ("the background takes unverified checkpoints for good", "C3 unseen damage", "commit/collector.cpp",
     "  if (!verify_folder(files, folder).findings.empty()) return false;\n",
     "  if (!{off} && !verify_folder(files, folder).findings.empty()) return false;\n"),
    # What keeps copies on other nodes true.
    ("older copies go before the newer ones are there", "R1", "levels.cpp", "    for (LevelCopies* copies : asked) copies->protect(buffer);\n",
     "    for (LevelCopies* copies : asked)\n      if ({off}) copies->remove_older(is_not_older);\n    for (LevelCopies* copies : asked) copies->protect(buffer);\n"),
    ("parity is not checked on its way", "R1", "multilevel/parity.cpp", "      if (!made.damage.empty())\n",
     "      if (!{off} && !made.damage.empty())\n"),
    ("partners' copies are not checked on arrival", "R1", "multilevel/partner.cpp", "  verify(snapshot);\n", "  if (!{off}) verify(snapshot);\n"),
    ("snapshots are not checked before they are used", "R1", "multilevel/node_snapshots.cpp",
     "  verify(snapshot);\n", "  if (!{off}) verify(snapshot);\n"),
]

mutation.main(MUTANTS)
