"""Ocellus as a package of jetson-containers, which gives `package` and runs this file.

Put this folder, or a link to it, below jetson-containers/packages/vlm/ocellus. What is built is the checkout that this
file lies in, so links are followed.
"""
from pathlib import Path

from jetson_containers import CUDA_ARCHITECTURES

folder = Path(package["path"]).resolve()  # noqa: F821 - given by jetson-containers
root = folder.parents[2]
package["path"] = str(root)  # noqa: F821
package["dockerfile"] = str((folder / "Dockerfile").relative_to(root))  # noqa: F821
package["test"] = [str((folder / "test.sh").relative_to(root))]  # noqa: F821
package["build_args"] = {  # noqa: F821
    # Orin is 87, Thor 110; others that the stack lists are not Jetsons that this supports.
    "CUDA_ARCHITECTURES": ";".join(str(one) for one in CUDA_ARCHITECTURES if int(one) in (87, 110)) or "87",
}
